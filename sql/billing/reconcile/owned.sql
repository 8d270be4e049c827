-- A row is a UTC day, a node, and a model, pricing and currency: what its devices were owned for, in device microseconds
-- times share (parts of 1 / $scale), and that times the price. amount is NULL where no rate covers the time.
with piece as (
    select
        s.cluster,
        s.device_id,
        s.profile,
        s.share_num,
        s.share_den,
        s.start_us,
        s.end_us,
        unnest(
            range(
                greatest(s.start_us, $start_us) // 86400000000 * 86400000000,
                least(s.end_us, $end_us),
                86400000000
            )
        ) as day_us
    from segment s
    where s.start_us < $end_us and s.end_us > $start_us
),
priced as (
    select
        p.day_us,
        p.cluster,
        d.node,
        d.model,
        r.pricing,
        r.currency,
        r.usd_per_gpu_hour,
        (
            least(p.end_us, r.end_us, p.day_us + 86400000000) - greatest(p.start_us, r.start_us, p.day_us)
        )::hugeint * (p.share_num * ($scale // p.share_den)) as units
    from piece p
    join device d on d.device_id = p.device_id and d.cluster = p.cluster
    join device_price r
        on r.device_id = p.device_id and r.cluster = p.cluster and r.profile is not distinct from p.profile
    where greatest(p.start_us, r.start_us, p.day_us) < least(p.end_us, r.end_us, p.day_us + 86400000000)
)
select
    day_us,
    cluster,
    node,
    model,
    pricing,
    currency,
    sum(units)::varchar as units,
    sum(
        units
        * (
            split_part(usd_per_gpu_hour, '.', 1) || rpad(split_part(usd_per_gpu_hour, '.', 2), $places, '0')
        )::hugeint
    )::varchar as amount
from priced
group by all
order by all;
