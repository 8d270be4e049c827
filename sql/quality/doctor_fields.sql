-- A row is a node with held, sampled devices, and which of the fields that detectors need it never delivered.
select
    d.cluster,
    coalesce(d.node, '?') as node,
    count(distinct w.device_id) as devices,
    count(w.sm_active_ratio) = 0 as lacks_sm_active,
    count(w.sm_occupancy_ratio) = 0 as lacks_sm_occupancy,
    count(w.gr_engine_ratio) = 0 as lacks_gr_engine,
    count(w.tensor_active_ratio) = 0 as lacks_tensor,
    count(w.dram_active_ratio) = 0 as lacks_dram
from device_window w
join device d on d.device_id = w.device_id and d.cluster = w.cluster
where w.hour_us >= $since_us
group by all
order by all;
