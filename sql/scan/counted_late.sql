-- The one row is about nodes whose GPUs count in the window only from their first sample or job, more than an hour after the node
-- was there by its scheduler: how many nodes, from when the last of them counts, and the GPU-microseconds before.
with counted as (
    select s.cluster, d.node, min(s.start_us) as from_us, count(distinct d.gpu) as gpus
    from segment s
    join device d on d.device_id = s.device_id and d.cluster = s.cluster
    where d.node is not null
    group by s.cluster, d.node
),
listed as (
    select cluster, node, min(created_us) as since_us
    from node
    where created_us is not null
    group by cluster, node
),
fleet as (
    select cluster, min(from_us) as first_us
    from counted
    group by cluster
),
late as (
    select
        c.gpus,
        c.from_us as counted_us,
        least(c.from_us, $end_us) - greatest(l.since_us, f.first_us, $start_us) as us
    from counted c
    join listed l using (cluster, node)
    join fleet f using (cluster)
)
select
    count(*) as nodes,
    max(counted_us) as last_us,
    coalesce(sum(gpus * us), 0)::hugeint::varchar as left_out_us
from late
where us > 3600000000;
