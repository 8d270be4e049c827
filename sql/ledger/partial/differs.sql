-- Compares what was computed from a part of the records with what is stored, as far as both are of the time before $from_us.
create or replace temp table segment_at as
select * from segment where cluster = $cluster and start_us < $from_us and end_us >= $from_us;

create or replace temp table differing as
with stored_hold as (
    select run_id, device_id, pod_uid, start_us, least(end_us, $from_us) as end_us, declared, estimated, units
    from attributed_hold
    where cluster = $cluster and start_us < $from_us and (end_us > $from_us or run_id in (select run_id from read_run))
),
new_hold as (
    select run_id, device_id, pod_uid, start_us, least(end_us, $from_us), declared, estimated, units
    from whole_hold
    where start_us < $from_us
),
other_hold as (
    select * from (select * from stored_hold except all select * from new_hold)
    union all
    select * from (select * from new_hold except all select * from stored_hold)
),
stored_segment as (
    select device_id, run_id, share_num, share_den, profile, free_bucket, estimated, conflict, method, split
    from segment_at
),
crossing as (
    select device_id, run_id, share_num, share_den, profile, free_bucket, estimated, conflict, method, split
    from new_segment
    where start_us < $from_us and end_us >= $from_us
),
other_segment as (
    select device_id from (select * from stored_segment except all select * from crossing)
    union all
    select device_id from (select * from crossing except all select * from stored_segment)
)
select start_us from other_hold
union all
-- What is silent after its last sample is so no longer when there is a later one.
select o.last_us
from device o
join new_device n using (device_id)
where o.cluster = $cluster and o.last_us <> n.last_us and o.last_us < $from_us
union all
select (select min(s.start_us) from segment_at s where s.device_id = o.device_id) from other_segment o;

create or replace temp table stored_device as
select
    device_id, parent_id, gpu, gi, profile, node, gpu_index, pci_bus_id, model, measured, first_us, first_interval_us,
    last_interval_us
from device
where cluster = $cluster;

create or replace temp table derived_device as
select
    device_id, parent_id, gpu, gi, profile, node, gpu_index, pci_bus_id, model, measured, first_us, first_interval_us,
    last_interval_us
from new_device;

create or replace temp table stored_node as
select node, from_us, case when to_us < $from_us then to_us end as to_us, devices, gpu_model, sharing, replicas
from attributed_node
where cluster = $cluster and coalesce(from_us < $from_us, true);

create or replace temp table derived_node as
select node, from_us, case when to_us < $from_us then to_us end as to_us, devices, gpu_model, sharing, replicas
from whole_node
where coalesce(from_us < $from_us, true);

select
    exists(from (from stored_device except from derived_device))
    or exists(from (from derived_device except from stored_device))
    or exists(from (from stored_node except from derived_node))
    or exists(from (from derived_node except from stored_node))
    -- Devices that are named by UUID are chosen first, whenever their runs begin.
    or exists(from missing where gpus is not null)
    or (exists(from missing where start_us < $from_us) and exists(from slot_turn))
    or exists(from differing where start_us is null) as otherwise,
    (select min(start_us) from differing) as earlier_us;
