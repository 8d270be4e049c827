-- A row is an hour of a GPU, held or free: readings, most memory in use, highest temperature and fewest PCIe lanes.
select
    h.hour_us,
    sum(h.samples)::bigint as samples,
    max(h.fb_used_max_bytes) as fb_used_bytes,
    max(h.gpu_temp_max_celsius) as gpu_temp_celsius,
    min(h.pcie_lanes_min) as pcie_lanes
from device_hour h
where h.cluster = $cluster and list_contains($device_ids, h.device_id) and h.hour_us >= $start_us and h.hour_us < $end_us
group by h.hour_us
order by h.hour_us;
