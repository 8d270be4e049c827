-- A row is a device (and its slot, where it was moved) and a span in which it is held, while devices are missing: a hold of a GPU that
-- was replaced counts for the newest one in its slot. `units` are NULL for a whole device.
with newest as (
    select t.gpu, t.moved, t.node, t.slot, l.gpu as newest_gpu, case when l.moved then l.number end as stay
    from slot_turn t
    join slot_turn l on l.node = t.node and l.slot = t.slot and l.newest
    where not t.newest or (t.moved and l.gpu = t.gpu)
),
wanting as (
    select min(start_us) as start_us, max(end_us) as end_us from missing where node is not null
)
select coalesce(n.device_id, h.device_id) as device_id, t.stay, h.start_us, h.end_us, f.units
from hold h
join wanting w on w.start_us < h.end_us and w.end_us > h.start_us
left join seen old using (device_id)
left join newest t on t.gpu = old.gpu and (not t.moved or (t.node = h.node and t.slot = h.slot))
left join seen n on n.gpu = t.newest_gpu and n.gi = old.gi
left join fraction_unit f on f.run_id = h.run_id and f.pod_uid is not distinct from h.pod_uid;
