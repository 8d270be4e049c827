-- A row of new_device is a device that the fleet owned at some time, measured or not.
-- The exporter's model name replaces the scheduler's (gres type, product label) if exactly one exporter name fits.
create or replace temp table new_device as
with exporter_name as (
    select distinct model, lower(regexp_replace(model, '[^A-Za-z0-9]', '', 'g')) as plain
    from seen
    where model is not null
),
-- A node that no node list describes has the GPU model that the allocations on it name, if they name one.
claim_model as (
    select node, min(lower(gpu_type)) as gpu_model
    from claim
    where cluster = $cluster and node is not null and gpu_type is not null and profile is null
    group by node
    having count(distinct lower(gpu_type)) = 1
),
named_model as (
    select coalesce(s.node, c.node) as node, coalesce(s.gpu_model, c.gpu_model) as gpu_model, s.pool
    from site s
    full join claim_model c on c.node = s.node
),
scheduler_name as (
    select distinct gpu_model, lower(regexp_replace(gpu_model, '[^A-Za-z0-9]', '', 'g')) as plain
    from named_model
    where gpu_model is not null
),
site_model as (
    select s.gpu_model, any_value(e.model) as model
    from scheduler_name s
    join exporter_name e on contains(e.plain, s.plain)
    group by s.gpu_model
    having count(*) = 1
),
every as (
    select
        device_id,
        gpu,
        gi,
        profile,
        node,
        gpu_index,
        pci_bus_id,
        model,
        true as measured,
        first_us,
        last_us,
        first_interval_us,
        last_interval_us
    from seen
    union all by name
    -- A partitioned GPU that is never sampled as a whole still has a row, which gets its remainder.
    select
        p.parent_id as device_id,
        p.gpu,
        -1 as gi,
        null::varchar as profile,
        arg_max(n.node, n.last_us) as node,
        arg_max(n.gpu_index, n.last_us) as gpu_index,
        arg_max(n.pci_bus_id, n.last_us) as pci_bus_id,
        arg_max(n.model, n.last_us) as model,
        false as measured
    from gpu_parent p
    join seen n using (gpu)
    where p.parent_id not in (select device_id from seen)
    group by p.parent_id, p.gpu
    union all by name
    select distinct device_id, gpu, -1 as gi, profile, node, gpu_index, model, kind, false as measured
    from unseen_device
)
select
    e.device_id,
    coalesce(p.parent_id, e.device_id) as parent_id,
    $cluster as cluster,
    e.gpu,
    e.gi,
    e.profile,
    e.node,
    e.gpu_index,
    e.pci_bus_id,
    coalesce(e.model, m.model, s.gpu_model) as model,
    coalesce(s.pool, e.model, m.model, s.gpu_model) as pool,
    e.kind,
    e.measured,
    e.first_us,
    e.last_us,
    e.first_interval_us,
    e.last_interval_us
from every e
left join gpu_parent p using (gpu)
left join named_model s on s.node = e.node
left join site_model m on m.gpu_model = s.gpu_model;
