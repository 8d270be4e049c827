-- Runs after a day was sealed: records the contents of the day. Then come the owners on its samples and which hours are stale
-- (store/sealing.py).
delete from sealed_day where day_us = $day_us;

insert into sealed_day
select $day_us, count(*), count(*) <> count(distinct (device_id, observed_us))
from sample
where observed_us >= $day_us and observed_us < $day_us + 86400000000
having count(*) > 0;

delete from context_span
where hour_us >= $start_us and hour_us < $end_us
    and hour_us // 3600000000 in (select hour from late_hour);

-- A row of labelled is a context on a device within an hour.
create or replace temp table labelled as
select
    device_id,
    context_id,
    observed_us // 3600000000 * 3600000000 as hour_us,
    min(observed_us) as first_us,
    max(observed_us) as last_us,
    count(*) as samples
from sample
where observed_us >= $day_us and observed_us < $day_us + 86400000000
    and observed_us // 3600000000 in (select hour from late_hour)
group by all;
