-- A row is a device of the fleet at one instant, a whole GPU or a MIG slice: how much of it is unallocated (thousandths, 0
-- while it is out of service), where it is, and its price. A slice has the node, pool and place of its GPU;
-- one whose GPU is not known is left out, and so are accelerators of other vendors.
with standing as (
    select
        s.cluster,
        s.device_id,
        any_value(s.profile) as profile,
        bool_or(s.share_num = s.share_den or s.run_id is not null) as whole,
        bool_or(s.run_id is not null) as held,
        bool_or(s.free_bucket = 'out_of_service') as out_of_service,
        sum(case when s.run_id is null then 1000 * s.share_num // s.share_den else 0 end)::bigint as free_milli
    from segment s
    join cluster_end e using (cluster)
    where s.start_us < e.as_of_us and s.end_us >= e.as_of_us
        and s.free_bucket is distinct from 'mig_remainder'
    group by s.cluster, s.device_id
),
-- A GPU that only its scheduler knows is there, and free, as long as the scheduler lists its node as up.
node_record as (
    -- Not the first of a window: DuckDB 1.5 fails at it here. A struct keeps the state of the newest record where it is NULL.
    select
        cluster,
        scheduler,
        node,
        max(n.observed_us) as observed_us,
        arg_max({'state': n.state}, (coalesce(n.observed_us, -1), n.state is distinct from 'up', n.state)).state as state
    from node n
    join cluster_end e using (cluster)
    where coalesce(n.observed_us <= e.at_us, true)
    group by all
),
listed as (
    select t.cluster, t.node, bool_and(coalesce(t.state = 'up', true)) as up
    from node_record t
    join (select cluster, scheduler, max(observed_us) as newest_us from node_record group by all) s using (cluster, scheduler)
    where coalesce(t.observed_us >= s.newest_us - $stale_us, true)
    group by t.cluster, t.node
),
only_listed as (
    select d.cluster, d.device_id, l.up
    from device d
    join listed l on l.cluster = d.cluster and l.node = d.node
    where not d.measured and d.device_id = d.parent_id and d.profile is null and d.kind is null
        and d.device_id not in (select device_id from standing)
        and not exists (select 1 from device s where s.parent_id = d.device_id and s.device_id <> d.device_id)
),
present as (
    select
        s.cluster,
        s.device_id,
        s.profile,
        s.held,
        s.out_of_service,
        case when s.out_of_service then 0 else s.free_milli end as free_milli
    from standing s
    join device d using (cluster, device_id)
    -- Unheld parts of a partitioned GPU are what no slice covers.
    where d.gi >= 0 or (s.whole and d.profile is null and d.kind is null)
    union all
    select cluster, device_id, null, false, not up, case when up then 1000 else 0 end
    from only_listed
),
edge as (
    select t.cluster, t.child, t.child_kind, t.parent, t.parent_kind
    from topology_edge t
    join cluster_end e using (cluster)
    where t.child_kind in ('gpu', 'node')
        and coalesce(t.valid_from_us <= e.at_us, true)
        and coalesce(t.valid_until_us > e.at_us, true)
),
seat as (
    select
        cluster,
        child as gpu,
        min(parent) filter (where parent_kind = 'node') as node,
        min(parent) filter (where parent_kind = 'nvlink') as island
    from edge
    where child_kind = 'gpu'
    group by all
),
outside as (
    select
        cluster,
        child as node,
        min(parent) filter (where parent_kind = 'nvlink_domain') as nvlink_domain,
        coalesce(min(parent) filter (where parent_kind = 'leaf'), min(parent) filter (where parent_kind = 'block')) as leaf
    from edge
    where child_kind = 'node'
    group by all
),
linked as (
    select distinct p.cluster, p.node
    from topology_pair p
    join cluster_end e using (cluster)
    where coalesce(p.valid_from_us <= e.at_us, true) and coalesce(p.valid_until_us > e.at_us, true)
)
select
    p.cluster,
    d.pool,
    d.model,
    coalesce(s.node, d.node) as node,
    d.gpu,
    d.gi,
    p.profile,
    p.held,
    p.out_of_service,
    p.free_milli,
    s.island,
    l.node is not null as links_known,
    o.nvlink_domain,
    o.leaf,
    r.usd_per_gpu_hour as price,
    case when r.usd_per_gpu_hour is not null then r.currency end as currency
from present p
join cluster_end e using (cluster)
join device d using (cluster, device_id)
left join seat s on s.cluster = p.cluster and s.gpu = d.gpu
left join outside o on o.cluster = p.cluster and o.node = coalesce(s.node, d.node)
left join linked l on l.cluster = p.cluster and l.node = coalesce(s.node, d.node)
left join device_price r
    on r.cluster = p.cluster and r.device_id = p.device_id and r.profile is not distinct from p.profile
    and r.start_us <= e.at_us and r.end_us > e.at_us
order by p.cluster, d.pool, d.model, coalesce(s.node, d.node), d.gpu, d.gi;
