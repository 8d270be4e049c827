-- A row of topo_model is a GPU and its model.
create or replace temp table topo_model as
select gpu, max(model) as model
from context
where cluster = $cluster and gpu is not null and model is not null
group by gpu;

-- A row of topo_node is a node with GPUs, sampled or reported: their model, and how many.
create or replace temp table topo_node as
with sampled as (
    select s.node, max(m.model) as model, count(distinct s.gpu) as gpus
    from topo_slot s
    left join topo_model m on m.gpu = s.gpu
    where s.until_us = $end_us
    group by s.node
),
reported as (
    select n.node, max(t.gpu_model) as model, bool_or(t.devices is not null and t.devices not in ('', '{}')) as gpus
    from node t
    join topo_name n on n.name = t.node
    where t.cluster = $cluster
    group by n.node
)
select
    coalesce(s.node, t.node) as node,
    coalesce(s.model, t.model) as model,
    coalesce(s.gpus, 0) as gpus
from sampled s
full join (select * from reported where gpus or model is not null) t on t.node = s.node;
