-- A row is two GPUs of one node and the level between them at one instant.
select a, b, level, bandwidth_gb_per_s
from topology_pair
where cluster = $cluster and node = $node
    and coalesce(valid_from_us <= $at_us, true)
    and coalesce(valid_until_us > $at_us, true)
order by a, b;
