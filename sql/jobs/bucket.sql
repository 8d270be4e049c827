-- A row is a run, a share unit and its buckets in the whole hours of a window: device microseconds times share units, to be
-- divided by share_den.
with run_hour as (
    select *
    from ledger_hour
    where hour_us >= $start_us and hour_us + 3600000000 <= $end_us and hour_us < getvariable('rolled_from_us')
    union all
    select *
    from ledger_hour
    where hour_us >= $start_us and hour_us + 3600000000 <= $end_us and hour_us >= getvariable('rolled_until_us')
    union all by name
    -- Whole days, as views/whole_days.sql found them.
    select * exclude (day_us, class_id, first_us, charged_us)
    from book_day
    where day_us >= getvariable('rolled_from_us') and day_us < getvariable('rolled_until_us')
),
run_sum as (
    select
        run_id,
        share_num,
        share_den,
        sum(columns('^(unobserved|hoarded|gap|communication|stalled|below_roof|memory_roof|compute)_us$'))
    from run_hour
    where run_id in (select run_id from asked_run)
    group by run_id, share_num, share_den
)
select
    run_id,
    share_den,
    sum(columns('(.*)_us$') * share_num)::varchar as '\1'
from run_sum
group by run_id, share_den
order by run_id, share_den;
