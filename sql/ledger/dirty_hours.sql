-- A row is an hour of a cluster that waits to be computed. reached: a segment lies in it; stored: it was computed before.
with waiting as (
    select distinct hour_us from dirty_hour where cluster = $cluster
),
stored as (
    select hour_us from ledger_hour where cluster = $cluster and hour_us in (select hour_us from waiting)
    union
    select hour_us from device_hour where cluster = $cluster and hour_us in (select hour_us from waiting)
    union
    select hour_us from stranding where cluster = $cluster and hour_us in (select hour_us from waiting)
),
near as (
    select start_us, end_us
    from segment
    where cluster = $cluster
        and end_us > (select min(hour_us) from waiting) and start_us < (select max(hour_us) from waiting) + 3600000000
)
select
    d.hour_us,
    count(s.start_us) > 0 as reached,
    d.hour_us in (select hour_us from stored) as stored
from waiting d
left join near s on s.start_us < d.hour_us + 3600000000 and s.end_us > d.hour_us
group by d.hour_us
order by d.hour_us;
