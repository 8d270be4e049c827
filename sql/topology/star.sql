-- A row is a container of a GPU or a node at one instant.
select child, child_kind, parent, parent_kind, bandwidth_gb_per_s
from topology_edge
where cluster = $cluster
    and child_kind in ('gpu', 'node')
    and coalesce(valid_from_us <= $at_us, true)
    and coalesce(valid_until_us > $at_us, true)
order by child_kind, child, parent_kind;
