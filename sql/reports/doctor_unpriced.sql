-- A row is a class of devices for some of whose time no rate is known.
select
    d.cluster,
    d.pool,
    d.model,
    s.profile,
    min(greatest(s.start_us, p.start_us)) as first_us,
    sum((least(s.end_us, p.end_us) - greatest(s.start_us, p.start_us)) / 3600e6 * s.share_num / s.share_den) as gpu_hours
from segment s
join device d on d.device_id = s.device_id and d.cluster = s.cluster
join device_price p
    on p.device_id = s.device_id and p.cluster = s.cluster and p.profile is not distinct from s.profile
    and p.start_us < s.end_us and p.end_us > s.start_us
where p.usd_per_gpu_hour is null
group by all
order by gpu_hours desc
limit 20;
