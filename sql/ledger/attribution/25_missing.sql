-- A row of missing is a run, a node and how many of its devices there are not identified.
create or replace temp table missing as
with held_place as (
    -- GPUs that followed each other in one slot are one device of the run.
    select
        h.run_id,
        h.pod_uid,
        coalesce(h.node, n.node) as node,
        case when t.slot is null then h.device_id::varchar else concat_ws('/', t.node, t.slot, n.gi) end as place
    from hold h
    left join seen n using (device_id)
    left join slot_turn t
        on t.gpu = n.gpu
        and (not t.moved or (t.node = h.node and t.slot = h.slot))
),
found as (
    select run_id, pod_uid, node, count(distinct place) as devices
    from held_place
    where node is not null
    group by all
),
found_run as (
    select run_id, count(distinct place) as devices from held_place group by run_id
),
declared_run as (
    select run_id, sum(device_count) as devices from wanted where not nested group by run_id
)
select
    w.run_id,
    w.pod_uid,
    w.node,
    w.profile,
    w.gpu_type,
    w.start_us,
    w.end_us,
    w.device_indexes,
    w.gpus,
    w.units,
    w.device_count - coalesce(f.devices, 0) as device_count,
    (d.devices - coalesce(r.devices, 0))::bigint as run_short
from wanted w
left join found f
    on f.run_id = w.run_id and f.pod_uid is not distinct from w.pod_uid and f.node = w.node
left join found_run r on r.run_id = w.run_id
join declared_run d on d.run_id = w.run_id
where not w.nested and w.device_count > coalesce(f.devices, 0) and coalesce(r.devices, 0) < d.devices
order by w.node, w.start_us, w.run_id;
