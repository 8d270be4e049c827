-- A row of device_roof is a device of a cluster with the roofs of its model: what workload_class and the rules ask for.
create or replace temp table device_roof as
select d.device_id, d.model, d.gi >= 0 as slice, m.tdp_watts, m.fb_bytes, m.roof
from device d
join model_roof m on m.model is not distinct from d.model
where d.cluster = $cluster;
