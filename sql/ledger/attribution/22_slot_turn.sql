-- A row of slot_turn is a GPU that shares its slot with another one before or after it: it was there in [from_us, to_us), which
-- are NULL where it was the first or is the last. A slot is a node's PCI address, or its index where no address is known.
create or replace temp table slot_turn as
with own as (
    select
        gpu,
        arg_max(node, last_us) as node,
        coalesce(arg_max(pci_bus_id, last_us), 'index ' || arg_max(gpu_index, last_us)) as slot,
        min(first_us) as first_us,
        max(last_us) as last_us,
        min(first_us - first_interval_us // 2) as start_us,
        max(last_us + last_interval_us // 2) as end_us
    from seen
    where node is not null
    group by gpu
),
neighbour as (
    select
        o.gpu,
        max(other.last_us) filter (where other.last_us < o.first_us) as before_us,
        min(other.first_us) filter (where other.first_us > o.last_us) as after_us
    from own o
    join own other on other.node = o.node and other.slot = o.slot and other.gpu <> o.gpu
    group by o.gpu
)
select
    o.gpu,
    o.node,
    o.slot,
    case when n.before_us is not null then greatest(o.start_us, n.before_us) end as from_us,
    case when n.after_us is not null then least(o.end_us, n.after_us) end as to_us
from own o
join neighbour n using (gpu)
where n.before_us is not null or n.after_us is not null;
