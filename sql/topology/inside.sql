-- A row is a GPU inside a container at one instant; a GPU is inside itself.
with edge as (
    select child, child_kind, parent, parent_kind
    from topology_edge
    where cluster = $cluster
        and child_kind in ('gpu', 'node')
        and coalesce(valid_from_us <= $at_us, true)
        and coalesce(valid_until_us > $at_us, true)
)
select child as gpu
from edge
where child_kind = 'gpu' and parent_kind = $kind and parent = $name
union
select g.child
from edge g
join edge n on n.child_kind = 'node' and n.child = g.parent
where g.child_kind = 'gpu' and g.parent_kind = 'node' and n.parent_kind = $kind and n.parent = $name
union
select child
from edge
where child_kind = 'gpu' and $kind = 'gpu' and child = $name
order by gpu;
