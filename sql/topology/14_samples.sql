-- Replaces the topology of a cluster of which only samples are known: each GPU is in its node, and nothing links them.
insert into topology_edge
select $cluster, gpu, 'gpu', node, 'node', node, null, null, true, 'samples', nullif(from_us, 0), nullif(from_us, 0), nullif(until_us, $end_us)
from topo_slot;

insert into topology_state values ($cluster, $inputs, $counts);
