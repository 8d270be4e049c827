-- The longest span covered by daily sums in every cluster, without an hour that still has to be computed.
set variable summed = (
    with summed_day as (
        select r.cluster, r.day_us
        from rolled_day r
        where not exists (
            select 1
            from dirty_hour h
            where h.cluster = r.cluster and h.hour_us // 86400000000 = r.day_us // 86400000000
        )
    ),
    unsummed as (
        select
            day_us + 86400000000 as from_us,
            lead(day_us, 1, 4611686018427387904) over (partition by cluster order by day_us) as to_us
        from (
            select cluster, day_us from summed_day
            union all
            select distinct cluster, -4611686018427387904 from device
        )
    ),
    edge as (
        select
            from_us,
            max(to_us) over (order by from_us, to_us rows between unbounded preceding and 1 preceding) as before_us
        from unsummed
        where from_us < to_us
    )
    select arg_max({'from_us': before_us, 'until_us': from_us}, (from_us - before_us, from_us))
    from edge
    where from_us > before_us
);

set variable summed_from_us = coalesce(getvariable('summed').from_us, 0);

set variable summed_until_us = coalesce(getvariable('summed').until_us, 0);

-- The one row has the units of a window's amounts, or with $ever of all time: denominators of shares, prices as text, and
-- owned GPU microseconds. It may include denominators of other windows.
select
    (
        select list(distinct share_den)
        from (
            select share_den from team_day
            union
            select share_den
            from segment
            where (start_us < getvariable('summed_from_us') or end_us > getvariable('summed_until_us'))
                and ($ever or start_us < $end_us and end_us > $start_us)
            union
            select share_den
            from ledger_hour
            where hour_us < getvariable('summed_from_us')
                and ($ever or hour_us < $end_us and hour_us + 3600000000 > $start_us)
            union
            select share_den
            from ledger_hour
            where hour_us >= getvariable('summed_until_us')
                and ($ever or hour_us < $end_us and hour_us + 3600000000 > $start_us)
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
