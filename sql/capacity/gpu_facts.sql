-- A row is a GPU of a cluster with what is known of it: place, model, driver, age, and the faults that it reported in the window.
with gpu as (
    select *
    from device
    where gi < 0 and gpu is not null and coalesce(kind, '') <> 'slice'
        and ($cluster is null or cluster = $cluster)
        and ($pool is null or pool = $pool)
        and ($gpu is null or gpu = $gpu)
        and ($q is null or contains(lower(concat_ws(chr(31), gpu, node, model)), $q))
        and ($after_cluster is null or (cluster, coalesce(node, ''), coalesce(gpu_index, -1), gpu)
            > ($after_cluster, $after_node, $after_index, $after_gpu))
    order by cluster, coalesce(node, ''), coalesce(gpu_index, -1), gpu
    limit $limit
),
driver as (
    select s.device_id, arg_max(c.driver, (s.last_us, c.driver)) as driver
    from context_span s
    join context c on c.context_id = s.context_id
    where c.driver is not null and s.device_id in (select device_id from gpu)
    group by s.device_id
),
part as (
    select g.device_id as gpu_id, d.device_id, d.gi
    from gpu g
    join device d on d.gpu = g.gpu and d.cluster = g.cluster
),
fault as (
    select
        p.gpu_id,
        list_sort(list_distinct(flatten(list(h.xids) filter (where h.xids is not null)))) as xids,
        max(h.ecc_dbe_count) as ecc_dbe_count,
        max(h.row_remap_pending) as row_remap_pending,
        max(h.row_remap_failed) as row_remap_failed,
        max(h.remapped_uncorrectable_rows) as remapped_uncorrectable_rows,
        max(h.gpu_temp_max_celsius) as gpu_temp_max_celsius,
        arg_max(h.pcie_lanes_min, (h.hour_us, h.pcie_lanes_min)) as pcie_lanes,
        max(h.pcie_lanes_max) as pcie_lanes_max
    from device_hour h
    join part p on p.device_id = h.device_id
    where h.hour_us >= $start_us and h.hour_us < $end_us
    group by p.gpu_id
)
select
    g.cluster,
    g.node,
    g.pool,
    g.model,
    g.gpu,
    g.gpu_index,
    g.pci_bus_id,
    g.first_us,
    g.last_us,
    (select count(*) from part p where p.gpu_id = g.device_id and p.gi >= 0) as slices,
    r.driver,
    f.* exclude (gpu_id)
from gpu g
left join driver r using (device_id)
left join fault f on f.gpu_id = g.device_id
order by g.cluster, coalesce(g.node, ''), coalesce(g.gpu_index, -1), g.gpu;
