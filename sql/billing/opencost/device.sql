-- A row is a device that the rows of a question count, with what its owners read of it.
select distinct
    d.device_id,
    d.gpu,
    d.gi,
    d.gpu_index,
    d.model,
    d.profile
from device d
join (select distinct device_id from oc_owner) o on o.device_id = d.device_id;
