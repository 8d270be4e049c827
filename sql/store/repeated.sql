-- The number of waiting samples of a day that repeat another one's device, labels and instant.
select count(*) - count(distinct (device_id, context_id, observed_us))
from sample_tail
where observed_us >= $start_us and observed_us < $end_us;
