-- Deletes what is past its retention. Whole UTC days only, and no day at or after one that is still to be computed; ledger,
-- segments, findings and the spans of labels stay for ever.
-- A retired day is in context_span but not in sealed_day; its ledger hours stay unchanged.
delete from sealed_day
where day_us + 86400000000 <= $raw_until_us
    and day_us + 97200000000 <= (select coalesce(min(hour_us), 9223372036854775807) from dirty_hour);

-- A row of retired_day is a day whose raw samples are deleted.
create or replace temp table retired_day as
select distinct hour_us // 86400000000 as day
from context_span
where hour_us < $raw_until_us
    and hour_us // 86400000000 * 86400000000 not in (select day_us from sealed_day);

-- A row of edge_hour is the first or the last hour of a device: attribution measures the spacing of its samples there.
create or replace temp table edge_hour as
select device_id, min(hour_us) // 3600000000 as hour from context_span group by device_id
union
select device_id, max(hour_us) // 3600000000 as hour from context_span group by device_id;

-- The last three hours before the kept days stay too: the first kept hours are computed from them.
delete from sample
where observed_us < $raw_until_us - 10800000000
    and observed_us // 86400000000 in (select day from retired_day)
    and (device_id, observed_us // 3600000000) not in (select (device_id, hour) from edge_hour);

delete from sample_origin
where observed_us < $raw_until_us - 10800000000
    and observed_us // 86400000000 in (select day from retired_day);

delete from device_minute where hour_us < $minute_until_us;

delete from device_window where hour_us < $minute_until_us;

delete from device_hour where hour_us < $minute_until_us;

delete from workload_hour where hour_us < $minute_until_us;

delete from idle_span where hour_us < $minute_until_us;

drop table edge_hour;

drop table retired_day;
