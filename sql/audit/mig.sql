-- A row is the fleet's GPUs of one model, pool and kind of node in the window: how many are partitioned, and their nodes' MIG
-- settings. strategy: the device plugin's ('none' too), NULL if unknown; set_by: what partitions them, NULL if unknown.
with gpu as (
    select
        d.cluster,
        d.parent_id,
        any_value(d.node) as node,
        any_value(coalesce(d.pool, d.model, 'unknown')) as pool,
        any_value(d.model) as model,
        count(*) filter (where d.device_id <> d.parent_id) as slices
    from device d
    where coalesce(d.last_us > $since_us and d.first_us < $until_us, true)
    group by d.cluster, d.parent_id
),
node_setting as (
    select
        cluster,
        node,
        bool_or(scheduler = 'slurm') as in_slurm,
        bool_or(scheduler = 'kubernetes') as in_kubernetes,
        -- GPU Feature Discovery leaves the label out where the strategy is none.
        coalesce(
            arg_max(mig_strategy, (coalesce(observed_us, 0), mig_strategy)),
            case when bool_or((labels ->> '$."nvidia.com/mig.capable"') is not null) then 'none' end
        ) as strategy,
        arg_max(
            labels ->> '$."nvidia.com/mig.config"', (coalesce(observed_us, 0), labels ->> '$."nvidia.com/mig.config"')
        ) filter (where scheduler = 'kubernetes') as config,
        bool_or(scheduler = 'slurm' and regexp_matches(coalesce(devices, ''), '[0-9]+g\.[0-9]+gb')) as in_gres
    from node
    group by cluster, node
)
select
    g.cluster,
    g.pool,
    g.model,
    case when s.in_kubernetes then 'kubernetes' when s.in_slurm then 'slurm' end as scheduler,
    s.strategy,
    case when s.config is not null then 'mig-manager: ' || s.config when s.in_gres then 'Slurm gres' end as set_by,
    count(*) as gpus,
    count(*) filter (where g.slices > 0) as cut_gpus,
    sum(g.slices)::bigint as slices
from gpu g
left join node_setting s on s.cluster = g.cluster and s.node = g.node
group by all
order by g.cluster, g.pool, g.model, gpus desc
limit $limit;
