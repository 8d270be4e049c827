-- Replaces a cluster's topology with the derived one; only present conflicts are stored.
insert into topology_edge
with nearest_star as (
    select child, child_kind, parent_kind, since_us
    from topo_star x
    where parent_kind <> 'nvlink' and not exists (
        select 1
        from topo_star z
        where z.child = x.child and z.child_kind = x.child_kind and z.place < x.place and z.parent_kind <> 'nvlink'
            and z.since_us < x.until_us and z.until_us > x.since_us
    )
)
select
    $cluster,
    v.child,
    v.child_kind,
    v.parent,
    v.parent_kind,
    v.node,
    v.level,
    case when v.child_kind = 'gpu' then g.gb_per_s when v.child_kind = 'node' then n.gb_per_s end,
    v.child_kind not in ('gpu', 'nic', 'node') or v.parent_kind in ('nvlink', 'capacity_block')
        or (v.child, v.child_kind, v.parent_kind, v.since_us) in (select (child, child_kind, parent_kind, since_us) from nearest_star),
    v.source,
    nullif(v.from_us, 0),
    nullif(v.since_us, 0),
    nullif(v.until_us, $end_us)
from topo_version v
left join topo_model m on v.child_kind = 'gpu' and m.gpu = v.child
left join topo_node d on d.node = v.node
left join topo_speed g on v.child_kind = 'gpu' and g.level = v.level and g.model = coalesce(m.model, d.model)
left join topo_node_speed n on v.child_kind = 'node' and n.node = v.child and n.kind = v.parent_kind;

insert into topology_pair
with marked as (
    select
        *,
        (
            lag(until_us) over history is distinct from from_us
            or lag(level) over history is distinct from level
            or lag(node) over history is distinct from node
        )::integer as starts
    from topo_pair_source
    window history as (partition by a, b order by from_us, until_us, level, node)
),
run as (
    select *, sum(starts) over (partition by a, b order by from_us, until_us, level, node) as number from marked
),
version as (
    select a, b, node, level, min(source) as source, min(from_us) as from_us, max(until_us) as until_us, min(floor_us) as floor_us, number
    from run
    group by a, b, node, level, number
)
select
    $cluster,
    v.node,
    v.a,
    v.b,
    v.level,
    g.gb_per_s,
    v.source,
    nullif(v.from_us, 0),
    nullif(
        case when row_number() over (partition by v.a, v.b order by v.from_us) > 1 then v.from_us else v.floor_us end, 0
    ),
    nullif(v.until_us, $end_us)
from version v
left join topo_model m on m.gpu = v.a
left join topo_node d on d.node = v.node
left join topo_speed g on g.level = v.level and g.model = coalesce(m.model, d.model);

insert into topology_conflict
with graph as (
    select child, parent_kind, parent, source
    from topo_version
    where child_kind = 'node' and until_us = $end_us
),
other as (
    select distinct o.child, o.parent_kind, g.parent, g.source, o.parent as other_parent, o.source as other_source
    from topo_node_containment o
    join graph g on g.child = o.child and g.parent_kind = o.parent_kind and g.source <> o.source
    where o.until_us = $end_us
),
shared as (
    select parent_kind, parent, other_parent, other_source, count(*) as nodes
    from other
    group by all
),
-- Sources may use different names: they disagree only where each groups nodes that the other separates.
crossing as (
    select s.*
    from shared s
    where exists (
        select 1 from shared x
        where x.parent_kind = s.parent_kind and x.other_source = s.other_source and x.other_parent = s.other_parent and x.parent <> s.parent
    )
    and exists (
        select 1 from shared x
        where x.parent_kind = s.parent_kind and x.other_source = s.other_source and x.parent = s.parent and x.other_parent <> s.other_parent
    )
),
-- The fewest nodes that would have to be somewhere else.
minor as (
    select c.*
    from crossing c
    where exists (
        select 1 from shared x
        where x.parent_kind = c.parent_kind and x.other_source = c.other_source
            and (x.parent = c.parent or x.other_parent = c.other_parent)
            and (x.nodes > c.nodes or (x.nodes = c.nodes and (x.parent, x.other_parent) < (c.parent, c.other_parent)))
    )
)
select $cluster, o.child, o.parent_kind, o.parent, o.source, o.other_parent, o.other_source
from other o
join minor m
    on m.parent_kind = o.parent_kind and m.parent = o.parent and m.other_parent = o.other_parent and m.other_source = o.other_source;

insert into topology_state values ($cluster, $inputs, $counts);
