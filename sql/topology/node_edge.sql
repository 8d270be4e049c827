-- A row is a container of a node, or of a GPU or network card in it, at one instant.
select child_kind, child, parent_kind, parent, bandwidth_gb_per_s
from topology_edge
where cluster = $cluster
    and (node = $node or (child_kind = 'node' and child = $node))
    and coalesce(valid_from_us <= $at_us, true)
    and coalesce(valid_until_us > $at_us, true)
order by child_kind, child, parent_kind, parent;
