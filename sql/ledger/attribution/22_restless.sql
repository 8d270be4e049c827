-- A row of stay is a GPU that was moved, and a slot that it was in, from its first to its last sample there.
create or replace temp table stay (
    gpu varchar,
    number bigint,
    node varchar,
    slot varchar,
    gpu_index integer,
    first_us bigint,
    last_us bigint,
    initial boolean,
    final boolean
);

-- A row of restless is a GPU whose samples name several nodes or several PCI addresses.
create or replace temp table restless as
select gpu
from seen_context
where node is not null
group by gpu
having min(node) <> max(node) or min(pci_bus_id) <> max(pci_bus_id);
