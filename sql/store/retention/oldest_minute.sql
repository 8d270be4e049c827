-- One row: the oldest day with minutes, windows, hours or idle spans of devices.
select min(hour_us) // 86400000000 * 86400000000 as day_us
from (
    select min(hour_us) as hour_us from device_minute
    union all
    select min(hour_us) from device_window
    union all
    select min(hour_us) from device_hour
    union all
    select min(hour_us) from workload_hour
    union all
    select min(hour_us) from idle_span
);
