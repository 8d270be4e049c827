-- Removes the topology of a cluster, which another one replaces.
delete from topology_edge where cluster = $cluster;

delete from topology_pair where cluster = $cluster;

delete from topology_conflict where cluster = $cluster;

delete from topology_state where cluster = $cluster;
