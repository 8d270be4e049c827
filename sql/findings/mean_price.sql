-- A row is one of some findings that were made before claims were kept, and a price that its devices had while it lasted,
-- weighted by devices, shares and time.
select
    f.key,
    d.model,
    p.usd_per_gpu_hour,
    p.currency,
    sum(
        (least(s.end_us, p.end_us, f.last_seen_us) - greatest(s.start_us, p.start_us, f.started_us))::hugeint
        * s.share_num * 1000000 // s.share_den
    )::varchar as overlap_us
from (
    select key, cluster, started_us, last_seen_us, unnest(device_ids) as device_id
    from finding
    where list_contains($keys::varchar[], key)
) f
join device d on d.device_id = f.device_id and d.cluster = f.cluster
join segment s
    on s.device_id = f.device_id and s.cluster = f.cluster and s.run_id is not null
    and s.start_us < f.last_seen_us and s.end_us > f.started_us
join device_price p
    on p.device_id = s.device_id and p.cluster = s.cluster and p.profile is not distinct from s.profile
    and p.start_us < least(s.end_us, f.last_seen_us) and p.end_us > greatest(s.start_us, f.started_us)
group by f.key, d.model, p.usd_per_gpu_hour, p.currency
order by f.key;
