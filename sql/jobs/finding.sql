-- A row is a finding about one of some jobs.
select f.cluster, f.job_id, f.key
from finding f
join asked_job j on j.cluster = f.cluster and j.job_id = f.job_id
left join run_team t on t.run_id = f.run_id and t.cluster = f.cluster
where ($start_us is null or f.ended_us is null or f.ended_us > $start_us)
    and ($end_us is null or f.started_us < $end_us)
    and ($teams::varchar[] is null or list_contains($teams, coalesce(f.team, t.team, case when f.run_id is null then '__platform__' else '__unallocated__' end)))
order by f.cluster, f.job_id, f.started_us, f.key;
