-- A row is a physical GPU and what it drew in the window: millijoules and the microseconds that its energy counter covers;
-- beside them watt-microseconds and microseconds of its power readings. MIG slices repeat what is their GPU's.
-- A counter that went down was restarted: what it had counted since the reading before is not known. Nor is what a GPU did
-- in a silence of more than $silence_us. More than $watts_max is no GPU's: the counter was restarted and has run far since.
with reading as (
    select
        d.cluster,
        d.gpu,
        s.observed_us,
        max(s.energy_mj) as energy_mj,
        max(s.power_watts) as power_watts
    from sample s
    join device d using (device_id)
    where s.observed_us >= $start_us and s.observed_us < $end_us
        and (s.energy_mj is not null or s.power_watts is not null)
    group by d.cluster, d.gpu, s.observed_us
),
counted as (
    select cluster, gpu, sum(spent_mj)::bigint as spent_mj, sum(length_us)::bigint as counted_us
    from (
        select
            cluster,
            gpu,
            energy_mj - lag(energy_mj) over turn as spent_mj,
            observed_us - lag(observed_us) over turn as length_us
        from reading
        where energy_mj is not null
        window turn as (partition by cluster, gpu order by observed_us)
    )
    -- A millijoule a microsecond is a kilowatt.
    where spent_mj >= 0 and length_us <= $silence_us and spent_mj * 1000 <= length_us * $watts_max
    group by cluster, gpu
),
felt as (
    select cluster, gpu, sum(power_watts * length_us) as watt_us, sum(length_us)::bigint as felt_us
    from (
        select
            cluster,
            gpu,
            power_watts,
            observed_us - lag(observed_us) over (partition by cluster, gpu order by observed_us) as length_us
        from reading
        where power_watts is not null
    )
    where length_us <= $silence_us
    group by cluster, gpu
),
gpu as (
    select cluster, gpu, arg_min(pool, gi) as pool, arg_min(model, gi) as model
    from device
    group by cluster, gpu
)
select
    g.cluster,
    g.gpu,
    g.pool,
    g.model,
    coalesce(c.spent_mj, 0) as spent_mj,
    coalesce(c.counted_us, 0) as counted_us,
    coalesce(f.watt_us, 0.0) as watt_us,
    coalesce(f.felt_us, 0) as felt_us
from gpu g
left join counted c on c.cluster = g.cluster and c.gpu = g.gpu
left join felt f on f.cluster = g.cluster and f.gpu = g.gpu
order by g.cluster, g.gpu;
