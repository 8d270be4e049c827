-- What held devices did, hour by hour.

-- A row is a device, one owner and an hour: how much of it was measured, means and maxima (of five minutes) of what the
-- device did in it, the class of that work (docs/workload-classes.md), and means of what its links carried. NULL where nobody
-- read it.
create table workload_hour (
    cluster varchar,
    hour_us bigint,
    device_id bigint,
    run_id bigint,
    covered_us bigint,
    sm_active_ratio float,
    sm_active_max_ratio float,
    tensor_active_max_ratio float,
    dram_active_max_ratio float,
    fb_used_max_bytes bigint,
    workload_class varchar,
    link_ratio float,
    pcie_bytes_per_s float
);
