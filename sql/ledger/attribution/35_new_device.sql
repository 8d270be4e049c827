-- A row of new_device is a device that the fleet owned at some time, measured or not.
-- The exporter's model name replaces the scheduler's (gres type, product label): the one that measured nodes of that scheduler name
-- have, else the only one that fits by its words (`l4` is no part of L40S), unless measured nodes show that it has another name.
create or replace temp table new_device as
with exporter_name as (
    select model, words, array_to_string(words, '') as plain
    from (
        select distinct model, regexp_extract_all(lower(model), '[a-z0-9]+') as words
        from seen
        where model is not null
    )
),
-- What one or more adjoining words of a name spell: `rtx6000` of Quadro RTX 6000.
exporter_part as (
    select model, array_to_string(words[first:last], '') as part, words[:first - 1] || words[last + 1:] as others
    from (select *, unnest(range(1, len(words) + 1)) as first from exporter_name)
    cross join lateral unnest(range(first, len(words) + 1)) as t (last)
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
    select gpu_model, words, array_to_string(words, '') as plain
    from (
        select distinct gpu_model, regexp_extract_all(lower(gpu_model), '[a-z0-9]+') as words
        from named_model
        where gpu_model is not null
    )
),
-- The exporter's names of the nodes of a scheduler name.
measured_name as (
    select distinct n.gpu_model, s.model
    from named_model n
    join seen s on s.node = n.node
    where n.gpu_model is not null and s.model is not null
),
-- A type that the site chose for measured nodes stands for their model, so another type does not.
typed as (
    select m.model
    from measured_name m
    join scheduler_name s using (gpu_model)
    join exporter_name e using (model)
    where s.plain <> e.plain and s.words[1] <> 'nvidia'
),
-- Every word of the scheduler's name, or what adjoining words spell; `others` are those that it does not have.
fit as (
    select s.gpu_model, e.model, list_filter(e.words, lambda word: not list_contains(s.words, word)) as others
    from scheduler_name s
    join exporter_name e on list_has_all(e.words, s.words)
    where s.plain <> ''
    union all
    select s.gpu_model, p.model, p.others
    from scheduler_name s
    join exporter_part p on p.part = s.plain
),
fitting as (
    select distinct gpu_model, model
    from fit
    -- Words of products that are sold beside the one without them.
    where not list_has_any(others, ['nvl', 'ti', 'super', 'ada', 'laptop'])
        and gpu_model not in (select gpu_model from measured_name)
        and model not in (select model from typed)
),
site_model as (
    select gpu_model, any_value(model) as model
    from (select * from measured_name union all select * from fitting)
    group by gpu_model
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
        arg_max(n.node, (n.last_us, n.device_id)) as node,
        arg_max(n.gpu_index, (n.last_us, n.device_id)) as gpu_index,
        arg_max(n.pci_bus_id, (n.last_us, n.device_id)) as pci_bus_id,
        arg_max(n.model, (n.last_us, n.device_id)) as model,
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
