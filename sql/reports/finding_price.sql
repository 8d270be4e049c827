-- A row is a price that devices of a finding had while it lasted, and for how long: device microseconds.
with part as (
    select
        key,
        cluster,
        started_us,
        greatest(last_seen_us, started_us + 1) as until_us,
        unnest(device_ids) as device_id
    from finding
)
select
    f.key,
    p.usd_per_gpu_hour,
    p.currency,
    d.model,
    sum((least(p.end_us, f.until_us) - greatest(p.start_us, f.started_us))::hugeint)::varchar as overlap_us
from part f
join device d on d.device_id = f.device_id and d.cluster = f.cluster
join device_price p
    on p.device_id = f.device_id and p.cluster = f.cluster and p.start_us < f.until_us and p.end_us > f.started_us
group by all
order by all;
