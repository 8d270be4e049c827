-- The one row is how many GPUs of some pools were held at once, in 1 / $scale GPUs: the most, what was enough for 99 % and for
-- 95 % of the time, and the mean. Only time counts in which at least nine tenths of the GPUs of the window's end, $there, were there
-- (`whole_us`): jobs cannot hold what is not there yet, so earlier time does not show how many they need.
with span as (
    select
        greatest(c.start_us, $start_us) as start_us,
        least(c.end_us, $end_us) as end_us,
        c.share_num * ($scale // c.share_den) as units
    from capacity c
    join device d on d.device_id = c.device_id and d.cluster = c.cluster
    where c.start_us < $end_us and c.end_us > $start_us
        and c.cluster = $cluster and list_contains($pools, d.pool) and d.model is not distinct from $gpu_model
),
part as (
    select
        greatest(s.start_us, $start_us) as start_us,
        least(s.end_us, $end_us) as end_us,
        s.share_num * ($scale // s.share_den) as units
    from segment s
    join device d on d.device_id = s.device_id and d.cluster = s.cluster
    where s.run_id is not null and s.start_us < $end_us and s.end_us > $start_us
        and s.cluster = $cluster and list_contains($pools, d.pool) and d.model is not distinct from $gpu_model
),
edge as (
    select at_us, sum(held) as held, sum(there) as there
    from (
        select start_us as at_us, units as held, 0 as there from part
        union all
        select end_us, -units, 0 from part
        union all
        select start_us, 0, units from span
        union all
        select end_us, 0, -units from span
    )
    group by at_us
),
level as (
    select
        sum(held) over so_far as units,
        sum(there) over so_far as there,
        coalesce(lead(at_us) over so_far - at_us, 0) as lasted_us
    from edge
    window so_far as (order by at_us)
),
whole as (
    select l.units, l.lasted_us
    from level l
    where l.lasted_us > 0 and l.there * 10 >= $there * 9
),
beyond as (
    select
        units,
        coalesce(
            sum(sum(lasted_us)) over (order by units desc rows between unbounded preceding and 1 preceding), 0
        ) as above_us
    from (select units, lasted_us from whole union all select 0, 0)
    group by units
),
total as (
    select coalesce(sum(lasted_us), 0) as whole_us, coalesce(sum(units::hugeint * lasted_us), 0) as unit_us from whole
)
select
    max(b.units)::bigint as peak,
    min(b.units) filter (where b.above_us * 100 <= t.whole_us)::bigint as p99,
    min(b.units) filter (where b.above_us * 20 <= t.whole_us)::bigint as p95,
    any_value(t.whole_us)::bigint as whole_us,
    any_value(t.unit_us)::varchar as unit_us
from beyond b, total t;
