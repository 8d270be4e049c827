-- A row is a node that had fewer CPUs or less memory to give (node_room) than all of a gang (gang_need) has, when the gang began.
select n.gang, r.place, r.cpu_milli, r.memory_bytes
from gang_need n
join node_room r on r.hour_us = n.at_us // 3600000000 * 3600000000 and r.start_us <= n.at_us and r.end_us > n.at_us
where r.cpu_milli < n.cpu_milli or r.memory_bytes < n.memory_bytes;
