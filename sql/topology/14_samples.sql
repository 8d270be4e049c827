-- Replaces the topology of a cluster of which only samples are known: each GPU is in its node, and nothing links them.
delete from topology_edge where cluster = $cluster;

insert into topology_edge
select $cluster, gpu, 'gpu', node, 'node', node, null, null, true, 'samples', nullif(from_us, 0), nullif(from_us, 0), nullif(until_us, $end_us)
from topo_slot;

delete from topology_pair where cluster = $cluster;

delete from topology_conflict where cluster = $cluster;

delete from topology_state where cluster = $cluster;

insert into topology_state values ($cluster, $inputs, $counts);
