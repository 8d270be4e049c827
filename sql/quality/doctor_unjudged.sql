-- A row is a reason why detectors could not evaluate devices: how many devices, and for how long.
select
    cluster,
    detector,
    reason,
    count(distinct device_id) as devices,
    sum(end_us - start_us)::bigint as device_us
from unjudged
group by all
order by all;
