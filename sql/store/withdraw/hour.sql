-- A row of late_hour is an hour of one day whose samples changed.
create or replace temp table late_hour as
select distinct hour
from gone_hour
where hour // 24 = $day;
