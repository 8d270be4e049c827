-- A row is a pool of GPUs and a day at whose end, over the 7 days before it, two or more authorities had placed work on the
-- same nodes, in turns. Nodes of their own, or a node handed over once, are no conflict. Who placed a run
-- says run_placer (sql/views).
with place as (
    select device_id, node, coalesce(pool, model, 'unknown') as pool
    from device
    where cluster = $cluster
),
-- Only pools that more than one authority ever used are looked at.
candidate as (
    select pool
    from (
        select distinct s.run_id, l.pool
        from segment s
        join place l using (device_id)
        where s.cluster = $cluster and s.run_id is not null
    )
    join run_placer p using (run_id)
    where p.authority <> 'inner'
    group by pool
    having count(distinct p.authority) >= 2
),
used as (
    select s.*, l.node, l.pool, p.authority, p.gated, p.namespace, p.state, p.start_us as run_start_us, p.end_us as run_end_us
    from segment s
    join place l using (device_id)
    join run_placer p using (run_id)
    where s.cluster = $cluster and l.pool in (select pool from candidate) and s.start_us < $until_us
),
by_day as (
    select
        *,
        greatest(start_us, day * 86400000000) as from_us,
        least(end_us, (day + 1) * 86400000000, $until_us) as to_us
    from (
        select *, unnest(range(start_us // 86400000000, (least(end_us, $until_us) - 1) // 86400000000 + 1)) as day
        from used
    )
),
cell as (
    select
        pool,
        node,
        authority,
        day,
        exact_sum((to_us - from_us)::double * share_num / share_den) as gpu_us,
        exact_sum(case when gated then (to_us - from_us)::double * share_num / share_den else 0 end) as gated_us,
        min(from_us) as first_us,
        max(to_us) as last_us
    from by_day
    group by all
),
-- One GPU that two authorities allocated for the same time. The ledger has one holder; of the other it has the part
-- before or after, and that its run went on.
twice as (
    select pool, day, sum(us) as us
    from (
        select
            a.pool,
            a.start_us // 86400000000 as day,
            a.device_id,
            a.start_us,
            max(least(a.end_us, b.run_end_us) - greatest(a.start_us, b.run_start_us)) as us
        from used a
        join used b
            on b.device_id = a.device_id and b.authority <> a.authority and (b.end_us = a.start_us or b.start_us = a.end_us)
            and b.run_start_us < a.end_us and b.run_end_us > a.start_us
        where a.conflict and a.authority <> 'inner' and b.authority <> 'inner'
        group by all
    )
    group by pool, day
),
-- Runs that were put off a GPU which another authority took at once, the most of them in one hour of the day.
driven_out as (
    select pool, day, max(runs) as evictions
    from (
        select a.pool, a.end_us // 86400000000 as day, a.end_us // 3600000000 as hour, count(distinct a.run_id) as runs
        from used a
        join used b
            on b.device_id = a.device_id and b.authority <> a.authority and b.authority <> 'inner'
            and b.start_us >= a.end_us and b.start_us < a.end_us + $taken_us
        where a.authority <> 'inner' and a.end_us >= a.run_end_us and regexp_matches(coalesce(a.state, ''), '(?i)preempt|evict')
        group by all
    )
    group by pool, day
),
refused as (
    select u.pool, e.day, count(distinct (e.namespace, e.name)) as pods
    from (
        select namespace, name, last_us // 86400000000 as day
        from event
        where cluster = $cluster and object_kind = 'Pod' and contains(message, 'nvidia.com/')
            and (reason = 'UnexpectedAdmissionError' or starts_with(reason, 'OutOf'))
    ) e
    join (select distinct pool, namespace from used) u on u.namespace = e.namespace
    group by all
),
evaluated_day as (
    select pool, unnest(range(first_day, (least($until_us, $known_until_us) - 1) // 86400000000 + 1)) as day
    from (select pool, min(day) as first_day from cell group by pool)
),
week as (
    select
        j.pool,
        j.day,
        c.node,
        c.authority,
        sum(c.gpu_us) as gpu_us,
        sum(c.gated_us) as gated_us,
        min(c.first_us) as first_us,
        max(c.last_us) as last_us
    from evaluated_day j
    join cell c on c.pool = j.pool and c.day <= j.day and c.day > j.day - 7
    group by all
),
whole as (
    select pool, day, sum(gpu_us) as gpu_us, sum(gated_us) as gated_us
    from week
    group by pool, day
),
-- An authority on a node that another one used between its first and its last use.
mixed as (
    select
        a.pool,
        a.day,
        a.node,
        a.authority,
        any_value(a.gpu_us) as gpu_us,
        any_value(a.first_us) as first_us
    from week a
    join week b
        on b.pool = a.pool and b.day = a.day and b.node = a.node and b.authority <> a.authority
        and b.first_us < a.last_us and a.first_us < b.last_us
    where a.authority <> 'inner' and b.authority <> 'inner'
    group by all
),
strong as (
    select
        m.pool,
        m.day,
        m.authority,
        sum(m.gpu_us) as gpu_us,
        sum(m.gpu_us) / any_value(w.gpu_us) as ratio,
        min(m.first_us) as first_us,
        list(distinct m.node order by m.node)[1:200] as nodes
    from mixed m
    join whole w using (pool, day)
    -- Who passes the queue by conflicts with those who do not.
    where m.authority <> 'pods past the queue' or w.gated_us > $share_min * w.gpu_us
    group by m.pool, m.day, m.authority
    having sum(m.gpu_us) > $share_min * any_value(w.gpu_us)
),
proof as (
    select
        j.pool,
        j.day,
        coalesce(sum(t.us), 0) as twice_us,
        coalesce(max(o.evictions), 0) as evictions,
        coalesce(max(r.pods), 0) as refused_pods
    from evaluated_day j
    join evaluated_day d on d.pool = j.pool and d.day <= j.day and d.day > j.day - 7
    left join twice t on t.pool = d.pool and t.day = d.day
    left join driven_out o on o.pool = d.pool and o.day = d.day
    left join refused r on r.pool = d.pool and r.day = d.day
    group by j.pool, j.day
)
select
    'pool' as subject_kind,
    s.pool as subject_id,
    s.pool as subject_name,
    -- The second of them came then.
    greatest(s.day * 86400000000, list_sort(list(s.first_us))[2]) as start_us,
    least((s.day + 1) * 86400000000, $until_us, $known_until_us) as end_us,
    case
        when any_value(p.twice_us) > 0 or any_value(p.evictions) >= $evictions_min
            or any_value(p.refused_pods) >= $refused_min then 'critical'
        else 'medium'
    end as severity,
    list_distinct(flatten(list(s.nodes))) as nodes,
    map {
        'authorities': count(*)::double,
        'mixed_nodes': len(list_distinct(flatten(list(s.nodes))))::double,
        'gpu_hours': sum(s.gpu_us) / 3600e6,
        'least_share_ratio': min(s.ratio),
        'doubly_given_gpu_hours': any_value(p.twice_us) / 3600e6,
        'evictions_an_hour': any_value(p.evictions)::double,
        'refused_pods_a_day': any_value(p.refused_pods)::double
    } as numbers,
    map {
        'writers': string_agg(s.authority || ' (' || round(100 * s.ratio)::int || ' %)', ', ' order by s.gpu_us desc, s.authority)
    } as words
from strong s
join proof p using (pool, day)
group by s.pool, s.day
having count(*) >= 2
order by start_us, s.pool;
