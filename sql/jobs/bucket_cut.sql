-- A row is a run, a share unit and its buckets in the hours that the window cuts: device microseconds times share units, to be
-- divided by share_den. They come from segments and minutes by views/cut_bucket, as in the ledger, so that both add up alike.
create or replace temp table cut_segment as
with cut_hour as (
    select distinct hour_us
    from (
        values ($start_us // 3600000000 * 3600000000), ($end_us // 3600000000 * 3600000000)
    ) as edge (hour_us)
    where hour_us < $start_us or hour_us + 3600000000 > $end_us
)
select
    s.*,
    h.hour_us,
    greatest(s.start_us, h.hour_us, $start_us) as from_us,
    least(s.end_us, h.hour_us + 3600000000, $end_us) as to_us
from segment s
join cut_hour h on s.start_us < h.hour_us + 3600000000 and s.end_us > h.hour_us
where from_us < to_us and s.run_id in (select run_id from asked_run);

create or replace temp table cut_minute as
select *, greatest(start_us, $start_us) as from_us, least(end_us, $end_us) as to_us
from device_minute
-- Constants, so that only the row groups of these hours are read.
where (hour_us = $start_us // 3600000000 * 3600000000 or hour_us = $end_us // 3600000000 * 3600000000)
    and start_us < $end_us and end_us > $start_us
    and hour_us in (select hour_us from cut_segment)
    and device_id in (select device_id from cut_segment);

