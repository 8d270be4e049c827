-- The one row is how many GPUs of some pools were held at once, in 1 / $scale GPUs: the most, what was enough for 99 % and for
-- 95 % of the $span_us of the window, and the mean.
with part as (
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
    select at_us, sum(units) as units
    from (
        select start_us as at_us, units from part
        union all
        select end_us, -units from part
    )
    group by at_us
),
level as (
    select
        sum(units) over (order by at_us) as units,
        coalesce(lead(at_us) over (order by at_us) - at_us, 0) as lasted_us
    from edge
),
beyond as (
    select
        units,
        coalesce(
            sum(sum(lasted_us)) over (order by units desc rows between unbounded preceding and 1 preceding), 0
        ) as above_us
    from (select units, lasted_us from level union all select 0, 0)
    group by units
)
select
    max(units)::bigint as peak,
    min(units) filter (where above_us * 100 <= $span_us)::bigint as p99,
    min(units) filter (where above_us * 20 <= $span_us)::bigint as p95,
    coalesce((select sum(units::hugeint * (end_us - start_us)) from part), 0)::varchar as unit_us
from beyond;
