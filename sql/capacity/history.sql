-- A row is a step of time, a cluster, pool and model: GPUs that were free and stranded on average, the largest gang that a node
-- could have taken at some moment of it, and how many slots of 1, 2, 4 and 8 GPUs there were on single nodes on average, and
-- gangs of two and four nodes with eight GPUs each that fitted at the start of its hours, on average.
with place as (
    select
        cluster,
        coalesce(node, gpu) as place,
        coalesce(model, '') as model,
        any_value(pool) as pool
    from device
    where ($cluster is null or cluster = $cluster)
    group by 1, 2, 3
),
amount as (
    select
        l.cluster,
        l.hour_us // $step_us * $step_us as step_us,
        d.pool,
        coalesce(d.model, '') as model,
        sum((l.schedulable_us + l.stranded_us) * (l.share_num / l.share_den)) / $step_us as free_gpus,
        sum(l.stranded_us * (l.share_num / l.share_den)) / $step_us as stranded_gpus
    from ledger_hour l
    join device d on d.device_id = l.device_id and d.cluster = l.cluster
    where ($cluster is null or l.cluster = $cluster)
        and l.hour_us >= $start_us and l.hour_us < $end_us
        and l.run_id is null and l.schedulable_us + l.stranded_us > 0
    group by all
),
slot as (
    select
        t.cluster,
        t.hour_us // $step_us * $step_us as step_us,
        p.pool,
        p.model,
        max(t.gpus) as largest_gang,
        sum((t.end_us - t.start_us) * t.gpus) / $step_us as slots_1,
        sum((t.end_us - t.start_us) * (t.gpus // 2)) / $step_us as slots_2,
        sum((t.end_us - t.start_us) * (t.gpus // 4)) / $step_us as slots_4,
        sum((t.end_us - t.start_us) * (t.gpus // 8)) / $step_us as slots_8
    from stranding t
    join place p on p.cluster = t.cluster and p.place = t.place and p.model = coalesce(t.model, '')
    where t.hour_us >= $start_us and t.hour_us < $end_us and not t.partitioned and t.milli = 1000
    group by all
),
-- Nodes with eight free GPUs at the start of each hour.
ready as (
    select t.cluster, t.hour_us, p.pool, p.model, sum(t.gpus // 8) as eights
    from stranding t
    join place p on p.cluster = t.cluster and p.place = t.place and p.model = coalesce(t.model, '')
    where t.hour_us >= $start_us and t.hour_us < $end_us and not t.partitioned and t.milli = 1000
        and t.start_us = t.hour_us
    group by all
),
gang as (
    select
        cluster,
        hour_us // $step_us * $step_us as step_us,
        pool,
        model,
        sum(eights // 2) * 3600000000 / $step_us as gangs_2,
        sum(eights // 4) * 3600000000 / $step_us as gangs_4
    from ready
    group by all
)
select
    a.step_us,
    a.cluster,
    a.pool,
    nullif(a.model, '') as gpu_model,
    a.free_gpus,
    a.stranded_gpus,
    coalesce(s.largest_gang, 0) as largest_gang,
    coalesce(s.slots_1, 0) as slots_1,
    coalesce(s.slots_2, 0) as slots_2,
    coalesce(s.slots_4, 0) as slots_4,
    coalesce(s.slots_8, 0) as slots_8,
    coalesce(g.gangs_2, 0) as gangs_2x8,
    coalesce(g.gangs_4, 0) as gangs_4x8,
    q.requests
from amount a
left join slot s
    on s.cluster = a.cluster and s.step_us = a.step_us and s.pool is not distinct from a.pool and s.model = a.model
left join gang g
    on g.cluster = a.cluster and g.step_us = a.step_us and g.pool is not distinct from a.pool and g.model = a.model
left join asked_day q on q.cluster = a.cluster and q.day_us = a.step_us // 86400000000 * 86400000000
order by a.step_us, a.cluster, a.pool, a.model
limit $limit offset $offset;
