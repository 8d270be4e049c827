-- A row is a GPU model and a span of the rate card that has no price for it, where the fleet owned it then.
select
    coalesce(d.model, '') as model,
    p.start_us as from_us,
    p.end_us as to_us,
    sum((least(p.end_us, s.end_us) - greatest(p.start_us, s.start_us)) * s.share_num / s.share_den)
        as lacking_us
from segment s
join device d on d.device_id = s.device_id and d.cluster = s.cluster
join device_price p
    on p.device_id = s.device_id and p.cluster = s.cluster and p.start_us < s.end_us and p.end_us > s.start_us
where p.usd_per_gpu_hour is null
group by all
order by all;
