-- Devices whose samples name an owner that no scheduler record knows are held by that owner.
insert into hold
select
    o.run_id,
    o.device_id,
    null,
    greatest(o.start_us, t.from_us),
    least(o.end_us, t.to_us),
    false,
    false,
    t.node,
    t.slot
from observed_hold o
join seen n using (device_id)
left join slot_turn t
    on t.gpu = n.gpu and t.moved
    and o.start_us < coalesce(t.to_us, o.end_us) and o.end_us > coalesce(t.from_us, o.start_us);
