-- A row of late_hour is an hour of one day for which samples wait to be sealed.
create or replace temp table late_hour as
select distinct observed_us // 3600000000 as hour
from sample_tail
where observed_us >= $start_us and observed_us < $end_us;
