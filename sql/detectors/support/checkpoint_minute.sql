-- A row is a minute of a candidate: the mean part of it in which its devices did nothing, the part in which the busiest of them
-- did nothing, and how many were read. Candidates are read in $parts parts.
with read as (
    select
        c.number,
        c.alone,
        d.start_us // 60000000 as minute,
        (d.gap_us + d.hoarded_us) / (d.end_us - d.start_us) as gap
    from device_minute d
    join checkpoint_held c on c.device_id = d.device_id and d.start_us >= c.start_us and d.start_us < c.end_us
    where d.cluster = $cluster and d.hour_us >= $read_from_us and d.hour_us < $read_until_us
        and c.start_us < $read_until_us and c.end_us > $read_from_us and c.number % $parts = $part
        and d.end_us - d.start_us >= 30000000 and d.unobserved_us * 2 < d.end_us - d.start_us
)
select number, minute, gap, gap as least_gap, 1 as devices
from read
where alone
union all
select number, minute, exact_mean(gap), min(gap), count(*)
from read
where not alone
group by number, minute;
