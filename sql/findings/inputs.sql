-- A row is an input of detectors, as rules name it in `needs`, and whether a cluster has any of it.
select 'runs' as name, count(*) > 0 as present from run where cluster = $cluster
union all
select 'several_schedulers', coalesce(count(distinct scheduler) > 1 or bool_or(scheduler = 'kubernetes'), false)
from run
where cluster = $cluster
union all
select 'several_devices', count(*) > 1 from device where cluster = $cluster
union all
select 'slices', count(*) > 0 from device where cluster = $cluster and (gi >= 0 or profile is not null)
union all
select 'pending', count(*) > 0 from pending where cluster = $cluster
union all
select 'workloads', count(*) > 0 from workload where cluster = $cluster
union all
select 'queues', count(*) > 0 from queue where cluster = $cluster
union all
select 'events', count(*) > 0 from event where cluster = $cluster
union all
-- Ledger days with earlier requests for devices.
select 'asked_days', count(*) > 0 from asked_day where cluster = $cluster and requests > 0
union all
select 'idle_spans', count(*) > 0 from idle_span where cluster = $cluster
union all
-- Devices whose samples of one instant name several owners.
select 'shared_devices', count(*) > 0 from (select 1 from context_span where shared limit 1)
union all
select 'leaf_switches', count(*) > 0 from topology_edge where cluster = $cluster and parent_kind = 'leaf'
union all
select 'sampled_drivers', count(*) > 0 from context where cluster = $cluster and driver is not null
union all
select 'labelled_drivers', count(*) > 0
from node
where cluster = $cluster and contains(labels, 'nvidia.com/cuda.driver-version.full')
union all
select 'preempted_claims', count(*) > 0 from claim where cluster = $cluster and upper(state) = 'PREEMPTED'
union all
-- Runs that may have ended without a result, or of which no container runs, by their state.
select 'failed_claims', count(*) > 0
from (
    select 1
    from claim
    where cluster = $cluster and (
        (end_us is not null and upper(state) not in ('RUNNING', 'COMPLETED', 'SUCCEEDED', 'FINISHED', 'PASS'))
        or never_started(state)
        or failed_again(labels)
    )
    limit 1
)
union all
-- Hours in which a GPU reports a fault, or has fewer PCIe lanes than it can have.
select 'fault_readings', count(*) > 0
from (
    select 1
    from device_hour
    where cluster = $cluster and (
        len(xids) > 0
        or row_remap_pending > 0
        or row_remap_failed > 0
        or ecc_dbe_count > 0
        or memory_unrepairable > 0
        or remapped_uncorrectable_rows is not null
        or pcie_lanes_seen_max < pcie_lanes_max
    )
    limit 1
)
union all
select 'memory_readings', count(*) > 0
from (
    (select 1 from device_hour where cluster = $cluster and fb_used_min_bytes is not null limit 1)
    union all
    (select 1 from workload_hour where cluster = $cluster and fb_used_max_bytes is not null limit 1)
);
