-- A row is a job with an open idle-hoarding finding that holds devices now: how many are idle, and since when all of
-- these have been idle. Times are measurement times: a device without measurements, or whose measurements ended before
-- the others', counts as held but not idle. known_us is the time of the last measurement.
with asked as (
    select key, cluster, job_id, confidence, wasted_units, wasted_den, bucket
    from finding
    where detector = 'idle-hoarding' and state = 'open' and ($cluster is null or cluster = $cluster)
),
held as (
    select
        a.key,
        a.cluster,
        s.device_id,
        s.run_id,
        d.node,
        d.pool,
        max(d.last_us) over (partition by a.key) as known_us,
        s.start_us
    from asked a
    join run r on r.cluster = a.cluster and r.job_id = a.job_id and not r.ended
    join segment s on s.cluster = r.cluster and s.run_id = r.run_id
    join device d on d.cluster = s.cluster and d.device_id = s.device_id
    qualify s.end_us >= known_us - $still_us
),
-- Spans of idle samples are cut at the hour; consecutive spans are merged.
linked as (
    select
        i.*,
        i.start_us is distinct from lag(i.end_us) over (partition by i.cluster, i.device_id order by i.start_us) as begins
    from idle_span i
    semi join held h on h.cluster = i.cluster and h.device_id = i.device_id
    where not i.free
),
numbered as (
    select *, count(case when begins then 1 end) over (partition by cluster, device_id order by start_us) as number
    from linked
),
idle_run as (
    select cluster, device_id, min(start_us) as start_us, max(end_us) as end_us
    from numbered
    group by cluster, device_id, number
),
now_idle as (
    select h.key, h.device_id, greatest(max(i.start_us), max(h.start_us)) as idle_from_us
    from held h
    join idle_run i on i.cluster = h.cluster and i.device_id = h.device_id and i.end_us >= h.known_us - $still_us
    group by h.key, h.device_id
),
whole as (
    select
        h.key,
        count(distinct h.device_id) as devices,
        count(distinct n.device_id) as idle_devices,
        max(n.idle_from_us) as idle_from_us,
        any_value(h.known_us) as known_us,
        arg_max(h.run_id, (h.start_us, h.run_id)) as run_id,
        arg_max(h.pool, (h.device_id, h.pool)) as pool,
        list(distinct h.node order by h.node) filter (where h.node is not null) as nodes
    from held h
    left join now_idle n on n.key = h.key and n.device_id = h.device_id
    group by h.key
)
select
    a.key,
    a.cluster,
    a.job_id,
    a.confidence,
    w.* exclude (key),
    r.scheduler,
    r.name,
    r.namespace,
    r.user_name,
    r.labels,
    coalesce(t.team, '__unallocated__') as team,
    (
        select list(distinct c.pod order by c.pod)
        from claim c
        where c.cluster = a.cluster and c.job_id = a.job_id and c.pod is not null
    ) as pods
from asked a
join whole w using (key)
join run r on r.cluster = a.cluster and r.run_id = w.run_id
left join run_team t on t.cluster = a.cluster and t.run_id = w.run_id
where w.idle_devices > 0
order by a.key
limit $limit;
