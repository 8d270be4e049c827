-- A row is a GPU model without a rate for some of the time that the fleet owned it.
select
    d.cluster,
    coalesce(d.model, '') as model,
    min(greatest(p.start_us, s.start_us)) as first_us,
    sum((least(p.end_us, s.end_us) - greatest(p.start_us, s.start_us)) * s.share_num / s.share_den) as lacking_us
from segment s
join device d on d.device_id = s.device_id and d.cluster = s.cluster
join device_price p
    on p.device_id = s.device_id and p.cluster = s.cluster and p.start_us < s.end_us and p.end_us > s.start_us
where p.usd_per_gpu_hour is null
group by all
order by all;
