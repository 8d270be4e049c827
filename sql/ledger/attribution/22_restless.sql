-- A row of stay is a GPU that was moved, and a slot that it was in, from its first to its last sample there. `returns`: it was in that
-- slot before as well, and another GPU meanwhile.
create or replace temp table stay (
    gpu varchar,
    number bigint,
    node varchar,
    slot varchar,
    gpu_index integer,
    first_us bigint,
    last_us bigint,
    initial boolean,
    final boolean,
    returns boolean
);

-- A row of restless is a GPU whose samples name several nodes or several PCI addresses, or that was back in its slot after another one.
create or replace temp table restless as
with slot_life as (
    select gpu, node, pci_bus_id, min(first_us) as first_us, max(last_us) as last_us
    from seen_context
    where node is not null and pci_bus_id is not null
    group by gpu, node, pci_bus_id
)
select gpu
from seen_context
where node is not null
group by gpu
having min(node) <> max(node) or min(pci_bus_id) <> max(pci_bus_id)
union
select o.gpu
from slot_life o
join slot_life other on other.node = o.node and other.pci_bus_id = o.pci_bus_id and other.gpu <> o.gpu
where other.first_us > o.first_us and other.last_us < o.last_us;
