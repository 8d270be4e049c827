-- A row is a node with GPUs whose links or network location no source reports now.
with node_gpus as (
    select cluster, node, count(distinct parent_id) as gpus
    from device
    where node is not null and coalesce(cluster = $cluster, true) and (gi >= 0 or profile is null) and kind is null
    group by cluster, node
),
linked as (
    select distinct cluster, node from topology_pair where valid_until_us is null
),
networked as (
    select distinct e.cluster, e.child as node
    from topology_edge e
    where e.child_kind = 'node' and e.valid_until_us is null
        and e.parent_kind not in ('zone', 'region', 'host', 'capacity_block')
),
kubernetes as (
    select distinct cluster, node from node where scheduler = 'kubernetes'
)
select
    g.cluster,
    g.node,
    g.gpus,
    g.gpus > 1 and l.node is null as lacks_links,
    n.node is null and count(*) over (partition by g.cluster) > 1 as lacks_network,
    k.node is not null as kubernetes
from node_gpus g
left join linked l on l.cluster = g.cluster and l.node = g.node
left join networked n on n.cluster = g.cluster and n.node = g.node
left join kubernetes k on k.cluster = g.cluster and k.node = g.node
qualify lacks_links or lacks_network
order by g.cluster, g.node;
