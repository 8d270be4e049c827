-- A row of slot_turn is a GPU that was moved, or that shares its slot with another one before or after it: it was there in
-- [from_us, to_us), which are NULL where it was the first or is the last. A slot is a node's PCI address, or its index where no
-- address is known. `newest`: no other GPU came after it. `initial`, `final`: the first and the last slot of the GPU.
create or replace temp table slot_turn as
with own as (
    select
        gpu,
        false as moved,
        0 as number,
        arg_max(node, (last_us, node)) as node,
        coalesce(arg_max(pci_bus_id, (last_us, pci_bus_id)), 'index ' || arg_max(gpu_index, (last_us, gpu_index))) as slot,
        min(first_us) as first_us,
        max(last_us) as last_us,
        min(first_us - first_interval_us // 2) as start_us,
        max(last_us + last_interval_us // 2) as end_us,
        true as initial,
        true as final
    from seen
    where node is not null and gpu not in (select gpu from stay)
    group by gpu
    union all
    select
        s.gpu,
        true,
        s.number,
        any_value(s.node),
        any_value(s.slot),
        any_value(s.first_us),
        any_value(s.last_us),
        any_value(s.first_us) - min(n.first_interval_us) // 2,
        any_value(s.last_us) + min(n.last_interval_us) // 2,
        any_value(s.initial),
        any_value(s.final)
    from stay s
    join seen n using (gpu)
    group by s.gpu, s.number
),
neighbour as (
    select
        o.gpu,
        o.number,
        max(other.last_us) filter (where other.last_us < o.first_us) as before_us,
        min(other.first_us) filter (where other.first_us > o.last_us) as after_us
    from own o
    join own other on other.node = o.node and other.slot = o.slot and other.gpu <> o.gpu
    group by o.gpu, o.number
)
select
    o.gpu,
    o.moved,
    o.number,
    o.node,
    o.slot,
    case when n.before_us is not null or not o.initial then greatest(o.start_us, n.before_us) end as from_us,
    case when n.after_us is not null or not o.final then least(o.end_us, n.after_us) end as to_us,
    n.after_us is null as newest,
    o.initial,
    o.final
from own o
left join neighbour n using (gpu, number)
where o.moved or n.before_us is not null or n.after_us is not null;
