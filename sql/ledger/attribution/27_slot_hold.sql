-- Whoever holds a GPU that replaced another, or was replaced, holds each GPU of the slot while it is there. A GPU that was moved
-- was in several slots: that of the hold counts.
create or replace temp table hold as
with turned as (
    select
        h.run_id,
        n.device_id,
        h.pod_uid,
        case when t.moved then t.number end as stay,
        greatest(h.start_us, coalesce(t.from_us, h.start_us)) as start_us,
        least(h.end_us, coalesce(t.to_us, h.end_us)) as end_us,
        h.declared,
        h.estimated,
        t.node,
        t.slot
    from hold h
    join seen m using (device_id)
    join slot_turn s
        on s.gpu = m.gpu
        and (not s.moved or (s.node = h.node and s.slot = h.slot))
    join slot_turn t on t.node = s.node and t.slot = s.slot
    join seen n on n.gpu = t.gpu and n.gi = m.gi
    where h.start_us < coalesce(t.to_us, h.end_us) and h.end_us > coalesce(t.from_us, h.start_us)
)
select
    run_id,
    device_id,
    pod_uid,
    min(start_us) as start_us,
    max(end_us) as end_us,
    bool_or(declared) as declared,
    bool_and(estimated) as estimated,
    any_value(node) as node,
    any_value(slot) as slot
from turned
group by run_id, device_id, pod_uid, stay
union all
select run_id, device_id, pod_uid, start_us, end_us, declared, estimated, node, slot
from hold
where device_id not in (select device_id from seen where gpu in (select gpu from slot_turn));
