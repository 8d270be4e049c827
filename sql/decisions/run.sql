-- A row is a job with what it held in the window: runs that touch it, their longest time, and its own word on checkpoints.
select
    r.cluster,
    r.job_id as job,
    any_value(r.name order by r.start_us desc) as name,
    coalesce(t.team, '__unallocated__') as team,
    count(distinct r.run_id) as runs,
    (max(r.end_us - r.start_us))::bigint as longest_us,
    max(try_cast(r.labels ->> '$."gpuwatch.io/checkpoint-minutes"' as double)) as checkpoint_minutes,
    bool_or(not r.ended) as running
from run r
left join run_team t on t.run_id = r.run_id and t.cluster = r.cluster
where r.start_us < $end_us and r.end_us > $start_us
    and ($cluster is null or r.cluster = $cluster)
    and ($teams::varchar[] is null or list_contains($teams, coalesce(t.team, '__unallocated__')))
group by r.cluster, r.job_id, coalesce(t.team, '__unallocated__');
