-- A row is a cluster: for how much of the time in which jobs held several GPUs its links were measured, and the links' health
-- as the devices report it. Device-hours; a NULL field counts as not measured.
with wide as (
    select run_id, hour_us from workload_hour
    where hour_us >= $since_us and hour_us < $until_us
    group by run_id, hour_us
    having count(distinct device_id) > 1
),
link as (
    select
        w.cluster,
        sum(w.covered_us) / 3600e6 as device_hours,
        coalesce(sum(w.covered_us) filter (where w.link_ratio is not null), 0) / 3600e6 as nvlink_hours,
        coalesce(sum(w.covered_us) filter (where w.pcie_bytes_per_s is not null), 0) / 3600e6 as pcie_hours
    from workload_hour w
    join wide using (run_id, hour_us)
    where w.hour_us >= $since_us and w.hour_us < $until_us
    group by w.cluster
),
health as (
    select
        cluster,
        count(distinct device_id) as devices,
        count(distinct device_id) filter (where nvlink_errors is not null or fabric_health_summary is not null) as read_devices,
        count(distinct device_id) filter (where nvlink_errors > 0) as nvlink_error_devices,
        count(distinct device_id) filter (where pcie_lanes_seen_max < pcie_lanes_max) as narrow_devices
    from device_hour
    where hour_us >= $since_us and hour_us < $until_us
    group by cluster
)
select
    h.cluster,
    h.devices,
    h.read_devices,
    h.nvlink_error_devices,
    h.narrow_devices,
    l.device_hours,
    l.nvlink_hours,
    l.pcie_hours
from health h
left join link l using (cluster)
order by h.cluster
limit $limit;
