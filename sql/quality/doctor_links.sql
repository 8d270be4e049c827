-- A row is a node and a model of its GPUs: how many of them jobs held, and whether NVLink and PCIe traffic was read.
-- MIG slices report no link traffic of their own.
select
    d.cluster,
    coalesce(d.node, '?') as node,
    d.model,
    count(distinct w.device_id) as devices,
    count(w.link_ratio) > 0 as reads_nvlink,
    count(w.pcie_bytes_per_s) > 0 as reads_pcie
from device_window w
join device d on d.device_id = w.device_id and d.cluster = w.cluster
where w.hour_us >= $since_us and d.gi < 0
group by all
having devices > 1
order by all;
