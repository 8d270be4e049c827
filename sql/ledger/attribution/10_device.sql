-- A row of seen is a device that samples name, with its newest labels and the spacing of its first and last samples.
create or replace temp table edge_spacing as
with instant as (
    select distinct s.device_id, s.observed_us, e.hour
    from sample s
    join edge_hour e on e.device_id = s.device_id and e.hour = s.observed_us // 3600000000
    where s.observed_us >= $edge_from_us and s.observed_us < $edge_until_us
),
spaced as (
    select
        device_id,
        hour,
        observed_us - lag(observed_us) over (partition by device_id, hour order by observed_us) as spacing_us
    from instant
)
select
    device_id,
    hour,
    quantile_disc(spacing_us, [0.5, 0.75]) as spread,
    -- As in sql/ledger/piece.sql: shifted scrapes make every other spacing short.
    least(case when spread[2] > 8 * spread[1] then spread[2] else spread[1] end, $interval_us_max) as interval_us
from spaced
where spacing_us is not null
group by all;

-- A row of pod_host is a name that a pod with GPUs may have as a node of Slurm or Ray: its own, cut as host names are, and
-- its host name. A Slinky pod is a Slurm node for certain, even one that has the name of its machine.
create or replace temp table pod_host as
with named as (
    select
        pod,
        pod_uid,
        namespace,
        start_us,
        coalesce(
            json_extract_string(labels, '$."gpuwatch.io/hostname"'),
            json_extract_string(labels, '$."nodeset.slinky.slurm.net/pod-hostname"')
        ) as host,
        contains(labels, '"nodeset.slinky.slurm.net/') as slinky
    from claim
    where cluster = $cluster and scheduler = 'kubernetes' and pod is not null
        and (contains(labels, '"gpuwatch.io/hostname"') or contains(labels, '"nodeset.slinky.slurm.net/'))
)
select pod, pod_uid, namespace, lower(host) as host, slinky, min(start_us) as first_us
from named
where host is not null
group by all
union all
select distinct pod, pod_uid, namespace, lower(rtrim(substr(pod, 1, 63), '-.')), false, null::bigint
from claim
where cluster = $cluster and scheduler = 'kubernetes' and pod is not null;

-- A row of slinky_host is the name of a Slurm node that is a pod, and since when.
create or replace temp table slinky_host as
select host, min(first_us) as first_us from pod_host where slinky group by host;

-- A row of node_alias is a node that the exporter names with a domain and the scheduler without, or in other case.
create or replace temp table node_alias as
with scheduler_name as (
    -- A Slurm node that is a pod may have its machine's name without the domain.
    select distinct node
    from node
    where cluster = $cluster and node is not null
        and not (scheduler = 'slurm' and lower(node) in (select host from slinky_host))
    union
    select distinct node
    from claim
    where cluster = $cluster and node is not null
        and not (scheduler = 'slurm' and lower(node) in (select host from slinky_host))
),
sampled as (
    select distinct node
    from seen_context
    where node is not null and node not in (select node from scheduler_name) and not regexp_full_match(node, '[0-9.:]+')
)
select s.node, any_value(t.node) as scheduler_node
from sampled s
join scheduler_name t on lower(split_part(t.node, '.', 1)) = lower(split_part(s.node, '.', 1))
group by s.node
having count(*) = 1;

create or replace temp table seen as
with newest as (
    select
        device_id,
        any_value(gpu) as gpu,
        any_value(gi) as gi,
        arg_max(profile, (last_us, context_id)) as profile,
        arg_max(node, (last_us, context_id)) as node,
        arg_max(gpu_index, (last_us, context_id)) as gpu_index,
        arg_max(pci_bus_id, (last_us, context_id)) as pci_bus_id,
        arg_max(model, (last_us, context_id)) as model,
        min(first_us) as first_us,
        max(last_us) as last_us
    from seen_context
    group by device_id
)
select
    n.* replace (coalesce(w.scheduler_node, n.node) as node),
    coalesce(
        a.interval_us, case when d.first_us = n.first_us then d.first_interval_us end, $default_interval_us
    ) as first_interval_us,
    coalesce(
        b.interval_us, case when d.last_us = n.last_us then d.last_interval_us end, $default_interval_us
    ) as last_interval_us
from newest n
left join edge_spacing a on a.device_id = n.device_id and a.hour = n.first_us // 3600000000
left join edge_spacing b on b.device_id = n.device_id and b.hour = n.last_us // 3600000000
left join device d on d.device_id = n.device_id and d.measured
left join node_alias w on w.node = n.node;

-- A row of node_record is one scheduler record of a node. A pod that Slurm or Ray treats as a node has no devices of its
-- own, and Ray's devices of a node count only where no other scheduler reports the node.
create or replace temp table node_record as
with held_pod as (
    select distinct host
    from pod_host
    where exists (select 1 from node where cluster = $cluster and scheduler <> 'kubernetes')
    union
    select distinct lower(rtrim(substr(pod, 1, 63), '-.'))
    from context
    where cluster = $cluster and pod is not null
        and exists (select 1 from node where cluster = $cluster and scheduler <> 'kubernetes')
),
other_node as (
    select lower(split_part(node, '.', 1)) as host
    from node
    where cluster = $cluster and scheduler <> 'ray'
    union
    select lower(split_part(node, '.', 1))
    from claim
    where cluster = $cluster and scheduler <> 'ray' and node is not null
        and exists (select 1 from node where cluster = $cluster and scheduler = 'ray')
),
machine as (
    select lower(node) as host from seen where node is not null
)
select *
from node n
where n.cluster = $cluster
    and (
        n.scheduler = 'kubernetes'
        or lower(n.node) in (select host from machine)
        or (
            lower(n.node) not in (select host from held_pod)
            and lower(split_part(n.node, '.', 1)) not in (select host from held_pod)
        )
    )
    and not exists (
        select 1
        from slinky_host h
        where n.scheduler = 'slurm' and h.host in (lower(n.node), lower(split_part(n.node, '.', 1)))
            and coalesce(n.observed_us, n.since_us, h.first_us) >= h.first_us
    )
    and (n.scheduler <> 'ray' or lower(split_part(n.node, '.', 1)) not in (select host from other_node));

-- A row of site is a cluster's node as its schedulers last described it; device counts by MIG profile, '' whole GPUs.
-- Only a record with a time of its own dates its node: the time of a drain does not show until when the fleet has it.
-- A cloud node that is powered down is not paid: such a record does not show that the fleet owns it. off_us is the time of the last
-- record if that is one.
create or replace temp table site as
select
    node,
    (list(devices order by record_us desc, devices) filter (where devices is not null))[1] as devices,
    (list(gpu_model order by record_us desc, gpu_model) filter (where gpu_model is not null))[1] as gpu_model,
    (list(coalesce(sharing, 'none') order by record_us desc, coalesce(sharing, 'none')) filter (where coalesce(sharing, 'none') is not null))[1] as sharing,
    (list(replicas order by record_us desc, replicas) filter (where replicas is not null))[1] as replicas,
    (list(pool order by record_us desc, pool) filter (where pool is not null))[1] as pool,
    min(observed_us) filter (where not off) as first_us,
    max(observed_us) filter (where not off) as last_us,
    max(since_us) as since_us,
    min(created_us) as created_us,
    case when arg_max(off, (record_us, not off)) then coalesce(max(observed_us), 9223372036854775807) end as off_us,
    bool_and(off) as always_off
from (
    select
        *,
        coalesce(observed_us, since_us, 0) as record_us,
        scheduler = 'slurm' and coalesce(
            list_has_all(string_split(json_extract_string(labels, '$.states'), ','), ['CLOUD', 'POWERED_DOWN']), false
        ) as off
    from node_record
)
group by node;

-- A row of outage is a span in which a node was drained or down; to_us is NULL while it still is.
create or replace temp table outage as
with state_change as (
    select distinct
        node,
        state <> 'up' as out,
        coalesce(case when state <> 'up' then since_us end, observed_us, since_us) as from_us
    from node_record
)
select
    node,
    from_us,
    (select min(up.from_us) from state_change up where up.node = t.node and not up.out and up.from_us > t.from_us) as to_us
from state_change t
where out and from_us is not null;
