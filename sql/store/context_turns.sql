-- Where several contexts take turns on a device (an owner left, or labels vanished for a scrape), each turn is a row;
-- where they stand at the same instants, the device is shared and each context is one row.
insert into context_span
with mixed_hour as (
    select device_id, hour_us, sum(samples) as samples
    from labelled
    group by all
    having count(*) > 1
),
mixed as (
    select t.device_id, t.context_id, m.hour_us, t.observed_us
    from sample t
    join mixed_hour m
        on m.device_id = t.device_id and m.hour_us = t.observed_us // 3600000000 * 3600000000
    where t.observed_us >= $day_us and t.observed_us < $day_us + 86400000000
    group by all
),
-- Shared is a device with two owners at one instant; a second exporter that prints none, or another driver, is not one.
owner_at as (
    select distinct
        m.device_id,
        m.hour_us,
        m.observed_us,
        concat_ws(chr(31), c.job, c.namespace, c.pod, c.pod_uid) as owner
    from mixed m
    join context c using (context_id)
    where coalesce(c.job, c.pod) is not null
),
shared_hour as (
    select device_id, hour_us
    from owner_at
    group by all
    having count(*) > count(distinct observed_us)
),
-- Contexts of one instant that name one owner at most are one row each, as if they alternated.
doubled_hour as (
    select device_id, hour_us
    from mixed
    group by all
    having count(*) > count(distinct observed_us)
),
turn_edge as (
    select
        *,
        context_id is distinct from lag(context_id) over (
            partition by device_id, hour_us order by observed_us
        ) as begins
    from mixed
    where (device_id, hour_us) not in (select (device_id, hour_us) from shared_hour)
),
turn as (
    select
        *,
        count(case when begins then 1 end) over (
            partition by device_id, hour_us order by observed_us
        ) as number
    from turn_edge
),
-- More than three turns of every context in an hour are two sources, not owners that follow each other.
parallel_hour as (
    select device_id, hour_us
    from turn
    group by device_id, hour_us
    having count(distinct number) > 6 * count(distinct context_id)
    union
    select device_id, hour_us
    from doubled_hour
    where (device_id, hour_us) not in (select (device_id, hour_us) from shared_hour)
)
select device_id, context_id, hour_us, first_us, last_us, samples, false, false
from labelled
where (device_id, hour_us) not in (select (device_id, hour_us) from mixed_hour)
union all
select device_id, context_id, hour_us, first_us, last_us, samples, true, false
from labelled
where (device_id, hour_us) in (select (device_id, hour_us) from shared_hour)
union all
select device_id, context_id, hour_us, first_us, last_us, samples, false, true
from labelled
where (device_id, hour_us) in (select (device_id, hour_us) from parallel_hour)
union all
select device_id, context_id, hour_us, min(observed_us), max(observed_us), count(*), false, false
from turn
where (device_id, hour_us) not in (select (device_id, hour_us) from parallel_hour)
group by device_id, context_id, hour_us, number;
