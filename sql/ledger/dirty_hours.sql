-- A row is an hour of a cluster that waits to be computed. reached: a segment lies in it; stored: it was computed before.
with stored as (
    select hour_us from ledger_hour where cluster = $cluster
    union
    select hour_us from device_hour where cluster = $cluster
    union
    select hour_us from stranding where cluster = $cluster
)
select
    d.hour_us,
    count(s.start_us) > 0 as reached,
    d.hour_us in (select hour_us from stored) as stored
from (select distinct hour_us from dirty_hour where cluster = $cluster) d
left join segment s
    on s.cluster = $cluster and s.start_us < d.hour_us + 3600000000 and s.end_us > d.hour_us
group by d.hour_us
order by d.hour_us;
