-- A row is a day with samples up to now, the newest first.
select distinct hour_us // 86400000000 * 86400000000 as day_us
from context_span
where last_us <= $now_us
order by day_us desc
limit $most;
