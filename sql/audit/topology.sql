-- A row is a cluster: for how many of its nodes the links between GPUs and the place in the network are known, from which
-- sources, and which schedulers have a topology.
with node_gpus as (
    select cluster, node, count(distinct parent_id) as gpus
    from device
    where node is not null and coalesce(last_us > $since_us and first_us < $until_us, true)
        and (gi >= 0 or profile is null) and kind is null
    group by cluster, node
),
linked as (
    select distinct cluster, node from topology_pair where valid_until_us is null
),
networked as (
    select distinct cluster, child as node
    from topology_edge
    where child_kind = 'node' and valid_until_us is null and parent_kind not in ('zone', 'region', 'host', 'capacity_block')
),
sources as (
    select
        cluster,
        list_sort(list(distinct source) filter (where child_kind = 'gpu')) as link_sources,
        list_sort(list(distinct source) filter (where child_kind = 'node')) as network_sources,
        count(distinct child) filter (where child_kind = 'nic') as nics
    from topology_edge
    where valid_until_us is null
    group by cluster
),
scheduler_topology as (
    select
        cluster,
        count(distinct a) filter (where level = 'LEVEL') as kueue_topologies,
        count(distinct a) filter (where level = 'HYPERNODE') as hypernodes,
        count(*) filter (where level in ('SWITCH', 'BLOCK', 'RING')) as switches
    from link
    group by cluster
),
flavor as (
    select
        cluster,
        count(distinct name) as flavors,
        count(distinct name) filter (where (detail ->> '$.topology') is not null) as flavors_with_topology
    from queue
    where scheduler = 'kueue' and kind = 'resource_flavor' and state is distinct from 'deleted'
    group by cluster
)
select
    g.cluster,
    count(*) as nodes,
    count(*) filter (where g.gpus > 1) as linkable_nodes,
    count(*) filter (where g.gpus > 1 and l.node is not null) as linked_nodes,
    count(*) filter (where n.node is not null) as networked_nodes,
    any_value(s.link_sources) as link_sources,
    any_value(s.network_sources) as network_sources,
    coalesce(any_value(s.nics), 0) as nics,
    coalesce(any_value(t.kueue_topologies), 0) as kueue_topologies,
    coalesce(any_value(t.hypernodes), 0) as hypernodes,
    coalesce(any_value(t.switches), 0) as switches,
    any_value(f.flavors) as flavors,
    coalesce(any_value(f.flavors_with_topology), 0) as flavors_with_topology
from node_gpus g
left join linked l on l.cluster = g.cluster and l.node = g.node
left join networked n on n.cluster = g.cluster and n.node = g.node
left join sources s on s.cluster = g.cluster
left join scheduler_topology t on t.cluster = g.cluster
left join flavor f on f.cluster = g.cluster
group by g.cluster
order by g.cluster
limit $limit;
