-- A row is a distinct state of the free GPUs of a node on a day.
select distinct hour_us // 86400000000 * 86400000000 as day_us, partitioned, model, parts
from free_state
order by all;
