-- A row is a run that held GPUs of some pools in the window: when, and how many, in 1 / $scale GPUs. At most $limit rows.
with part as (
    select
        s.run_id,
        s.device_id,
        min(greatest(s.start_us, $start_us)) as start_us,
        max(least(s.end_us, $end_us)) as end_us,
        max(s.share_num * ($scale // s.share_den)) as units
    from segment s
    join device d on d.device_id = s.device_id and d.cluster = s.cluster
    where s.run_id is not null and s.start_us < $end_us and s.end_us > $start_us
        and s.cluster = $cluster and list_contains($pools, d.pool) and d.model is not distinct from $gpu_model
    group by s.run_id, s.device_id
)
select min(start_us)::bigint as start_us, max(end_us)::bigint as end_us, sum(units)::bigint as units
from part
group by run_id
order by start_us, end_us, units
limit $limit;
