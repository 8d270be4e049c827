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
found_run as (
    select run_id, count(distinct place) as devices from held_place group by run_id
),
declared_run as (
    select run_id, sum(device_count) as devices from wanted where not nested group by run_id
),
short_run as (
    select d.run_id, (d.devices - coalesce(r.devices, 0))::bigint as devices
    from declared_run d
    left join found_run r using (run_id)
    where coalesce(r.devices, 0) < d.devices
),
found as (
    select run_id, pod_uid, node, count(distinct place) as devices
    from held_place
    where node is not null and run_id in (select run_id from short_run)
    group by all
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
    w.scheduler,
    w.totals,
    w.device_count - coalesce(f.devices, 0) as device_count,
    s.devices as run_short
from wanted w
join short_run s using (run_id)
left join found f
    on f.run_id = w.run_id and f.pod_uid is not distinct from w.pod_uid and f.node = w.node
where not w.nested and w.device_count > coalesce(f.devices, 0)
order by w.node, w.start_us, w.run_id;
