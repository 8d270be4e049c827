-- A row of cut_segment is a part of a segment in an hour that the window or a new price cuts.
create or replace temp table cut_segment as
with near_segment as (
    select *
    from segment
    where start_us < getvariable('uncut_from_us') and end_us > $start_us
    union all
    select *
    from segment
    where start_us >= getvariable('uncut_from_us')
        and end_us > getvariable('uncut_until_us')
        and start_us < $end_us
)
select
    s.*,
    greatest(s.start_us, h.from_us) as from_us,
    least(s.end_us, h.to_us) as to_us
from near_segment s
join (
    select f.cluster, h.from_us, h.to_us
    from cut_span h
    join fine_span f on h.from_us >= f.from_us and h.to_us <= f.to_us
) h
    on h.cluster = s.cluster and s.start_us < h.to_us and s.end_us > h.from_us;

-- A row of cut_minute is a part of a minute in such an hour.
create or replace temp table cut_minute as
-- The edges of the window are constants, so that only the row groups of their hours are read.
with minute as (
    select *
    from device_minute
    where hour_us = $start_us // 3600000000 * 3600000000
    union all
    select *
    from device_minute
    where hour_us = $end_us // 3600000000 * 3600000000
        and hour_us <> $start_us // 3600000000 * 3600000000
    union all
    select *
    from device_minute
    where hour_us in (
        select hour_us
        from cut_span
        where hour_us <> $start_us // 3600000000 * 3600000000 and hour_us <> $end_us // 3600000000 * 3600000000
    )
)
select m.*, greatest(m.start_us, h.from_us) as from_us, least(m.end_us, h.to_us) as to_us
from minute m
join cut_span h on h.hour_us = m.hour_us and m.start_us < h.to_us and m.end_us > h.from_us
where ($cluster is null or m.cluster = $cluster);
