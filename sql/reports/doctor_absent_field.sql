-- A row is a node whose devices were sampled and lack a field that the verdicts need.
select
    d.cluster,
    d.node,
    count(sm_active_ratio) = 0 as sm_active,
    count(gr_engine_ratio) = 0 as gr_engine,
    count(tensor_active_ratio) = 0 as tensor_active,
    count(dram_active_ratio) = 0 as dram_active,
    count(distinct d.device_id) as devices
from sample s
join device d using (device_id)
group by d.cluster, d.node
having sm_active or gr_engine or tensor_active or dram_active
order by d.cluster, d.node;
