-- A row is a job with what it held in the window: runs that touch it, their longest time, the most nodes of one of them,
-- and its own checkpoint interval, NULL unless every run declares one. steady: why one of them must not be taken away (view
-- needs_steady), NULL where nothing says so.
with spread as (
    select s.cluster, s.run_id, count(distinct d.node) as nodes
    from segment s
    join device d on d.device_id = s.device_id and d.cluster = s.cluster
    where s.run_id is not null and s.start_us < $end_us and s.end_us > $start_us
    group by s.cluster, s.run_id
),
run_checkpoint as (
    select *, try_cast(labels ->> '$."gpuwatch.io/checkpoint-minutes"' as double) as minutes
    from run
    where start_us < $end_us and end_us > $start_us and ($cluster is null or cluster = $cluster)
)
select
    r.cluster,
    r.job_id as job,
    any_value(r.name order by r.start_us desc) as name,
    coalesce(t.team, '__unallocated__') as team,
    count(distinct r.run_id) as runs,
    (max(r.end_us - r.start_us))::bigint as longest_us,
    max(s.nodes) as nodes,
    case when bool_and(coalesce(r.minutes > 0 and r.minutes <= $minutes_max, false)) then max(r.minutes) end
        as checkpoint_minutes,
    bool_or(not r.ended) as running,
    min(needs_steady(r.labels, r.name)) as steady
from run_checkpoint r
join spread s on s.run_id = r.run_id and s.cluster = r.cluster
left join run_team t on t.run_id = r.run_id and t.cluster = r.cluster
where $teams::varchar[] is null or list_contains($teams, coalesce(t.team, '__unallocated__'))
group by r.cluster, r.job_id, coalesce(t.team, '__unallocated__');
