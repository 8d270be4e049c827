-- A row is a cluster, pool and model, whether its GPUs are partitioned, and a UTC day: how much of their free time requests could
-- not use (`lost`), and what of that is for the sake of another model or MIG mode (`misfit`), both in GPU-microseconds. Idle
-- instances of a partitioned GPU count one each, so these are shares of the ledger's `stranded` and not amounts.
with place as (
    select cluster, coalesce(node, gpu) as place, coalesce(model, '') as model, any_value(pool) as pool
    from device
    where $cluster is null or cluster = $cluster
    group by 1, 2, 3
    union
    select cluster, gpu, coalesce(model, ''), any_value(pool)
    from device
    where gi >= 0 and ($cluster is null or cluster = $cluster)
    group by 1, 2, 3
)
select
    t.cluster,
    p.pool,
    p.model,
    t.partitioned,
    t.hour_us // 86400000000 * 86400000000 as day_us,
    sum((least(t.end_us, $end_us) - greatest(t.start_us, $start_us)) * t.gpus * t.lost / t.weight) as lost,
    sum((least(t.end_us, $end_us) - greatest(t.start_us, $start_us)) * t.gpus * t.misfit / t.weight) as misfit
from stranding t
join place p on p.cluster = t.cluster and p.place = t.place and p.model = coalesce(t.model, '')
where t.hour_us > $start_us - 3600000000 and t.hour_us < $end_us
    and t.start_us < $end_us and t.end_us > $start_us and t.lost > 0
group by all
order by all;
