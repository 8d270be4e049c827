-- A row is a physical GPU of the fleet (or the slices of one that no source names), since when it is there, and until when
-- where it has left: what is owned up to its cluster's last evidence is still there.
with cluster_end as (
    select cluster, max(last_us + last_interval_us // 2) as end_us
    from device
    group by cluster
)
select
    c.cluster,
    d.gpu,
    arg_min(d.node, d.gi) as node,
    arg_min(d.pool, d.gi) as pool,
    arg_min(d.model, d.gi) as model,
    min(c.start_us) as start_us,
    case when max(c.end_us) < any_value(e.end_us) then max(c.end_us) end as end_us
from capacity c
join device d on d.device_id = c.device_id and d.cluster = c.cluster
join cluster_end e on e.cluster = c.cluster
group by c.cluster, d.gpu
order by c.cluster, d.gpu;
