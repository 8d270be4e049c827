-- Notes how many records say what the topology of a cluster was derived from.
update topology_state set counts = $counts where cluster = $cluster;
