-- A row of seen_context is a device and a label set that its samples had, from the first to the last of these samples.
create or replace temp table seen_context as
select s.*, c.gpu, c.gi, c.profile, c.node, c.gpu_index, c.pci_bus_id, c.model
from (
    select device_id, context_id, min(first_us) as first_us, max(last_us) as last_us
    from context_span
    group by device_id, context_id
) s
join context c using (context_id)
where c.cluster = $cluster;

-- A row of edge_hour is the first or the last hour of a device, where the spacing of its samples there is not known yet: hours
-- whose samples changed are dirty.
create or replace temp table edge_hour as
with edge as (
    select device_id, min(first_us) // 3600000000 as hour from seen_context group by device_id
    union
    select device_id, max(last_us) // 3600000000 as hour from seen_context group by device_id
)
select e.*
from edge e
left join device d on d.device_id = e.device_id and d.measured
where $everywhere
    or d.device_id is null
    or e.hour not in (d.first_us // 3600000000, d.last_us // 3600000000)
    or e.hour * 3600000000 in (select hour_us from dirty_hour where cluster = $cluster);
