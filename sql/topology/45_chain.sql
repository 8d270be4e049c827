-- Containers of containers, derived from those that hold the same GPUs and nodes at one time.
create or replace temp table topo_node_containment as
select * from topo_valid where child_kind = 'node';

create or replace temp table topo_star as
select v.*, o.place
from topo_version v
join topo_kind o on o.kind = v.parent_kind
where v.child_kind in ('gpu', 'nic', 'node');

-- A row of topo_next is a container of a child and the next larger one.
create or replace temp table topo_next as
select
    x.child as star,
    x.parent_kind as inner_kind,
    x.parent as inner_name,
    y.parent_kind as outer_kind,
    y.parent as outer_name,
    y.node,
    y.source,
    greatest(x.since_us, y.since_us) as from_us,
    least(x.until_us, y.until_us) as until_us
from topo_star x
join topo_star y
    on y.child = x.child and y.child_kind = x.child_kind and y.place > x.place
    and y.since_us < x.until_us and y.until_us > x.since_us
where (x.parent_kind <> 'nvlink' or y.parent_kind = 'node')
    and not exists (
        select 1
        from topo_star z
        where z.child = x.child and z.child_kind = x.child_kind and z.place > x.place and z.place < y.place
            and x.parent_kind <> 'nvlink'
            and z.since_us < least(x.until_us, y.until_us) and z.until_us > greatest(x.since_us, y.since_us)
    );

-- A container in between, if reported for one child, applies to all.
create or replace temp table topo_containment as
with way as (
    select distinct n.inner_kind, n.inner_name, k.place, n.from_us, n.until_us
    from topo_next n
    join topo_kind k on k.kind = n.outer_kind
)
select
    n.inner_name as child,
    n.inner_kind as child_kind,
    case when n.inner_kind in ('nvlink', 'pcie', 'numa') then max(n.node) end as node,
    n.outer_name as parent,
    n.outer_kind as parent_kind,
    null::varchar as level,
    min(n.source) as source,
    50 as trust,
    n.from_us,
    n.until_us,
    0 as floor_us
from topo_next n
join topo_kind k on k.kind = n.outer_kind
where n.inner_kind <> 'node' and not exists (
    select 1
    from way w
    where w.inner_kind = n.inner_kind and w.inner_name = n.inner_name and w.place < k.place
        and w.from_us < n.until_us and w.until_us > n.from_us
)
group by n.star, n.inner_name, n.inner_kind, n.outer_name, n.outer_kind, n.from_us, n.until_us;
