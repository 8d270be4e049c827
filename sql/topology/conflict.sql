-- A row is a node that two sources put together with others differently.
select cluster, child, parent_kind, parent, source, told, told_source
from topology_conflict
where coalesce(cluster = $cluster, true)
order by all;
