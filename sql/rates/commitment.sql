-- A row is a commitment at one price and one share: microseconds of the devices that it covers within the window, held or
-- not. The share is share_num / share_den of a GPU.
with covered as (
    select
        k.cluster,
        k.device_id,
        k.profile,
        p.commitment_id,
        p.usd_per_gpu_hour,
        p.currency,
        greatest(p.start_us, $start_us) as start_us,
        least(p.end_us, $end_us) as end_us
    from class_price p
    join device_class k on k.class_id = p.class_id and k.cluster = p.cluster
    where p.commitment_id is not null and p.start_us < $end_us and p.end_us > $start_us
)
select
    c.commitment_id,
    c.usd_per_gpu_hour,
    c.currency,
    s.run_id is not null as held,
    s.share_num,
    s.share_den,
    sum(least(s.end_us, c.end_us) - greatest(s.start_us, c.start_us))::bigint as device_us
from covered c
join segment s
    on s.device_id = c.device_id and s.profile is not distinct from c.profile and s.cluster = c.cluster
    and s.start_us < c.end_us and s.end_us > c.start_us
group by all
order by all;
