-- A row is a cluster that knows a job of this id, and from when to when its runs lasted.
select r.cluster, min(r.start_us) as start_us, max(r.end_us) as end_us
from run r
left join run_team t on t.run_id = r.run_id and t.cluster = r.cluster
where r.job_id = $job_id
    and ($cluster is null or r.cluster = $cluster)
    and ($teams::varchar[] is null or list_contains($teams, coalesce(t.team, '__unallocated__')))
group by r.cluster
order by r.cluster;
