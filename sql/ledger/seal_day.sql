-- A row of to_seal is a sample of one day that is to be written in order: the new ones, and those already sealed in
-- hours that got late ones.
create or replace temp table late_hour as
select distinct observed_us // 3600000000 as hour
from sample_tail
where observed_us >= $start_us and observed_us < $end_us;

create or replace temp table to_seal as
select * from sample_tail
where observed_us >= $start_us and observed_us < $end_us
union all by name
select * from sample
where observed_us // 86400000000 = $start_us // 86400000000
    and observed_us // 3600000000 in (select hour from late_hour);

delete from sample
where observed_us // 86400000000 = $start_us // 86400000000
    and observed_us // 3600000000 in (select hour from late_hour);

delete from sample_tail
where observed_us >= $start_us and observed_us < $end_us;
