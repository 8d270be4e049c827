-- A row of inner_sign is a device that labels or UUIDs assign to an inner run.
create or replace temp table inner_sign as
select h.run_id, h.pod_uid, h.device_id
from hold h
where (h.run_id, coalesce(h.pod_uid, '')) in (select (run_id, coalesce(pod_uid, '')) from nested)
union
select w.run_id, w.pod_uid, n.device_id
from (select *, unnest(string_split(gpus, ',')) as gpu_uuid from wanted where gpus is not null and nested) w
join seen n on n.gpu = trim(w.gpu_uuid) and n.gi = -1;

delete from hold
where (run_id, coalesce(pod_uid, '')) in (select (run_id, coalesce(pod_uid, '')) from nested);
