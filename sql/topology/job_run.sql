-- A row is a run of a job that the asked teams may see (NULL: all teams).
select r.cluster, r.job_id, r.run_id
from run r
left join run_team t on t.cluster = r.cluster and t.run_id = r.run_id
where r.job_id = $job
    and ($cluster is null or r.cluster = $cluster)
    and ($teams::varchar[] is null or list_contains($teams, coalesce(t.team, '__unallocated__')))
order by r.cluster, r.run_id;
