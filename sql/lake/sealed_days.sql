-- A row is a day that is over, with all its samples in their sorted table.
select day_us
from sealed_day
where day_us + $settled_us <= $now_us
    and day_us not in (select observed_us // 86400000000 * 86400000000 from sample_tail);
