-- A row is an instant at which the topology of a cluster changed.
select valid_from_us as at_us from topology_edge where cluster = $cluster and valid_from_us is not null
union
select valid_until_us from topology_edge where cluster = $cluster and valid_until_us is not null
union
select valid_from_us from topology_pair where cluster = $cluster and valid_from_us is not null
union
select valid_until_us from topology_pair where cluster = $cluster and valid_until_us is not null
order by 1;
