-- A row is a node that two sources group differently.
select cluster, child, parent_kind, parent, source, told, told_source
from topology_conflict
where coalesce(cluster = $cluster, true)
order by all;
