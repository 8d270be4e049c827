-- A row is a UTC day of a window, and the number of its hours that are in the ledger of any device.
select hour_us // 86400000000 as day, count(distinct hour_us) as hours
from ledger_hour
where hour_us >= $start_us and hour_us < $end_us
group by 1
order by 1;
