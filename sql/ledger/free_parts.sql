-- A row is a state in which the free GPUs of some node were on some day, once.
select distinct hour_us // 86400000000 * 86400000000 as day_us, partitioned, model, parts
from free_state
order by all;
