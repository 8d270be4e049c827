-- A row is a minute of a chain that is a candidate: the mean part of it in which its devices (at most $devices_max of them)
-- did nothing, the part in which the busiest of them did nothing, and how many were read.
with chosen as (
    select h.chain, h.run_id, h.device_id, h.start_us, h.end_us, h.run_start_us,
        dense_rank() over (partition by h.chain order by h.device_id) as number
    from held h
    where h.sure and h.chain in (select chain from checkpoint_candidate)
)
select
    c.chain,
    d.start_us // 60000000 as minute,
    avg((d.gap_us + d.hoarded_us) / (d.end_us - d.start_us)) as gap,
    min((d.gap_us + d.hoarded_us) / (d.end_us - d.start_us)) as least_gap,
    count(*) as devices
from device_minute d
join chosen c
    on c.device_id = d.device_id and d.start_us >= c.start_us and d.start_us < c.end_us
    and d.start_us >= c.run_start_us + $warm_up_us
where d.cluster = $cluster and d.hour_us >= $read_from_us and d.hour_us < $read_until_us
    and c.number <= $devices_max and d.end_us - d.start_us >= 30000000 and d.unobserved_us * 2 < d.end_us - d.start_us
    and d.device_id in (select device_id from chosen)
group by c.chain, d.start_us // 60000000
order by c.chain, minute;
