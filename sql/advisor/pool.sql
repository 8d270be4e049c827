-- A row is a pool and model of a cluster: its GPUs at the end of the window, and how many each of its nodes has. What was
-- gone an hour before that is no capacity of tomorrow. Slices count as the part of a GPU that they are.
with last_span as (
    select c.cluster, c.device_id, c.share_num, c.share_den, d.pool, d.model, d.node
    from capacity c
    join device d on d.device_id = c.device_id and d.cluster = c.cluster
    where c.end_us > $start_us and c.start_us < $end_us and ($cluster is null or c.cluster = $cluster)
        and c.end_us
        >= least($end_us, (select max(end_us) from capacity k where k.cluster = c.cluster)) - 3600000000
    -- The newest layout of a repartitioned GPU.
    qualify least(c.end_us, $end_us) = max(least(c.end_us, $end_us)) over (partition by c.cluster, d.gpu)
),
sized as (
    select cluster, node, sum(share_num / share_den) as gpus
    from last_span
    where node is not null
    group by all
)
select
    p.cluster,
    p.pool,
    p.model as gpu_model,
    greatest(round(sum(p.share_num / p.share_den)), 1)::bigint as gpus,
    count(distinct p.node) as nodes,
    greatest(round(max(n.gpus)), 1)::bigint as gpus_a_node
from last_span p
left join sized n on n.cluster = p.cluster and n.node = p.node
group by p.cluster, p.pool, p.model
order by all;
