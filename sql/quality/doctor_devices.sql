-- A row is a node and its GPUs that only one side knows: the scheduler (never measured) or the exporter (no record). `slices`: the
-- MIG slices among those that were never measured; which GPU such a slice is on is not known.
with scheduled as (
    select cluster, node from node
    union
    select cluster, node from claim where node is not null
),
gpu as (
    select cluster, gpu, any_value(node) as node, bool_or(measured) as measured, bool_and(profile is not null) as is_slice
    from device
    where kind is null
    group by all
)
select
    g.cluster,
    coalesce(g.node, '?') as node,
    count(*) filter (where not g.measured) as unmeasured,
    count(*) filter (where not g.measured and g.is_slice) as slices,
    count(*) filter (where g.measured and t.node is null) as unknown
from gpu g
left join scheduled t on t.cluster = g.cluster and t.node = g.node
group by all
having unmeasured > 0 or unknown > 0
order by all;
