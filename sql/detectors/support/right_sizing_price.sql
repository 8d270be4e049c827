-- A row is a GPU model of the cluster that has a price at an instant: the least of its whole devices.
select d.model, min_by(p.usd_per_gpu_hour, p.usd_per_gpu_hour::double) as price, p.currency
from device d
join device_price p
    on p.cluster = d.cluster and p.device_id = d.device_id and p.profile is null
    and p.start_us <= $at_us and p.end_us > $at_us
where d.cluster = $cluster and d.gi < 0 and d.model is not null and p.usd_per_gpu_hour is not null
group by d.model, p.currency
order by d.model, p.currency;
