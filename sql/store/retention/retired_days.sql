-- A row is a day, counted from the epoch, with samples since a time whose raw samples are deleted.
select distinct hour_us // 86400000000 as day
from context_span
where hour_us >= $since_us
    and hour_us // 86400000000 * 86400000000 not in (select day_us from sealed_day);
