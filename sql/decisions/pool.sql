-- A row is a pool and model of a cluster: its GPUs at the end of the window, and how many each of its nodes has.
select
    c.cluster,
    d.pool,
    d.model as gpu_model,
    count(distinct d.gpu) as gpus,
    count(distinct d.node) as nodes,
    max(n.gpus) as gpus_a_node
from capacity c
join device d on d.device_id = c.device_id and d.cluster = c.cluster
left join (
    select cluster, node, count(distinct gpu) as gpus from device where node is not null group by all
) n on n.cluster = d.cluster and n.node = d.node
where c.end_us > $start_us and c.start_us < $end_us and ($cluster is null or c.cluster = $cluster)
    -- What was gone before the window ended is no capacity of tomorrow.
    and c.end_us >= least($end_us, (select max(end_us) from capacity k where k.cluster = c.cluster)) - 3600000000
group by c.cluster, d.pool, d.model
order by all;
