-- A row of whole_hold is a hold with its part of the device, in ten-thousandths.
create or replace temp table whole_hold as
select h.run_id, h.device_id, h.pod_uid, h.start_us, h.end_us, h.declared, h.estimated, f.units
from hold h
left join fraction_unit f on f.run_id = h.run_id and f.pod_uid is not distinct from h.pod_uid;

-- A row of whole_node is a row of site, or of outage.
create or replace temp table whole_node as
select node, null::bigint as from_us, null::bigint as to_us, devices, gpu_model, sharing, replicas from site
union all
select node, from_us, to_us, null, null, null, null from outage;
