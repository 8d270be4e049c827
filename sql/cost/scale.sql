-- The one row is what the money of a window, or with $ever of all time, is counted in: denominators of shares, prices as text,
-- GPU microseconds owned.
select
    (
        select list(distinct share_den)
        from (
            select share_den from segment where $ever or start_us < $end_us and end_us > $start_us
            union
            select share_den from ledger_hour where $ever or hour_us < $end_us and hour_us + 3600000000 > $start_us
        )
    ) as share_dens,
    (
        select list(distinct usd_per_gpu_hour)
        from device_price
        where ($ever or start_us < $end_us and end_us > $start_us) and usd_per_gpu_hour is not null
    ) as prices,
    (
        select sum(least(end_us, $end_us) - greatest(start_us, $start_us))::varchar
        from capacity
        where start_us < $end_us and end_us > $start_us
    ) as capacity_us;
