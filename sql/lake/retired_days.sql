-- A row is a day whose raw samples the retention of the store has deleted.
select distinct hour_us // 86400000000 * 86400000000 as day_us
from context_span
where hour_us // 86400000000 * 86400000000 not in (select day_us from sealed_day);
