-- Records the number of records that the topology of a cluster was derived from.
update topology_state set counts = $counts where cluster = $cluster;
