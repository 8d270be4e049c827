-- A row is a run, a share unit and a price: device microseconds, and those times share units, to be divided by share_den.
-- price is NULL where no rate covers the time: lacks names what. Call after jobs/run.sql, with its window.
with held as (
    select run_id, cluster, device_id, profile, start_us, end_us, share_num, share_den
    from shown_segment
    where run_id in (select run_id from asked_run)
)
select
    s.run_id,
    s.share_den,
    p.usd_per_gpu_hour as price,
    p.currency,
    case
        when p.usd_per_gpu_hour is null
            then concat_ws(chr(31), d.cluster, coalesce(d.pool, ''), coalesce(d.model, ''), coalesce(s.profile, ''))
    end as lacks,
    min(greatest(s.start_us, p.start_us, $start_us)) as first_us,
    sum(least(s.end_us, p.end_us, $end_us) - greatest(s.start_us, p.start_us, $start_us))::varchar as device_us,
    sum((least(s.end_us, p.end_us, $end_us) - greatest(s.start_us, p.start_us, $start_us))::hugeint * s.share_num)::varchar
        as units
from held s
join device d on d.device_id = s.device_id and d.cluster = s.cluster
join device_price p
    on p.device_id = s.device_id and p.profile is not distinct from s.profile and p.cluster = s.cluster
    and p.start_us < s.end_us and p.end_us > s.start_us
where p.start_us < $end_us and p.end_us > $start_us
group by all
order by all;
