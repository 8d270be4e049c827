-- A row is a run whose records are not read, on a device, as it was attributed: later runs are placed where it left room.
select h.run_id, h.device_id, h.pod_uid, h.start_us, h.end_us, h.units, h.estimated, d.node
from attributed_hold h
join device d on d.cluster = h.cluster and d.device_id = h.device_id
where h.cluster = $cluster and h.end_us > (select min(start_us) from missing where node is not null)
    and h.run_id not in (select run_id from read_key)
    and h.run_id not in (select run_id from hold);
