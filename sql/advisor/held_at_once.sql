-- The one row is how many GPUs of some pools were held at once: the most, and the mean over the window, in 1 / $scale GPUs.
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
    select at_us, sum(units) over (order by at_us) as units from edge
)
select
    coalesce(max(units), 0)::bigint as peak,
    coalesce((select sum(units::hugeint * (end_us - start_us)) from part), 0)::varchar as unit_us
from level;
