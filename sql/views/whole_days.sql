-- The longest time in the window for which book_day covers every cluster: whole days, none of whose hours waits to be computed,
-- and in which no price changes. As variables its ends are constants of the statements that follow.
set variable rolled = (
    with day as (
        select
            r.day_us,
            r.day_us - 86400000000 * row_number() over (order by r.day_us) as island
        from rolled_day r
        where r.day_us >= $start_us and r.day_us + 86400000000 <= $end_us
            and r.day_us not in (select hour_us // 86400000000 * 86400000000 from dirty_hour)
            and r.day_us not in (
                select start_us // 86400000000 * 86400000000 from class_price where start_us % 86400000000 <> 0
            )
        group by r.day_us
        having count(distinct r.cluster) = (select count(distinct cluster) from device)
    ),
    stretch as (
        select min(day_us) as from_us, max(day_us) + 86400000000 as until_us
        from day
        group by island
    )
    select arg_max({'from_us': from_us, 'until_us': until_us}, (until_us - from_us, from_us))
    from stretch
);

set variable rolled_from_us = coalesce(getvariable('rolled').from_us, $start_us);

set variable rolled_until_us = coalesce(getvariable('rolled').until_us, $start_us);
