-- A row is a node whose GPUs are sampled with two label sets at different instants of one hour. exporters: the label sets
-- differ in labels that a workload does not change, so there are two exporters (or scrapers); else owner labels come and go.
with alternating as (
    select
        s.device_id,
        s.hour_us,
        c.cluster,
        c.node,
        concat_ws('/', c.namespace, c.pod, c.pod_uid, c.container, c.job) as owner,
        row(c.node, c.gpu_index, c.pci_bus_id, c.model, c.driver, c.profile) as place
    from context_span s
    join context c using (context_id)
    where s.parallel and s.hour_us >= $since_us
),
device_hour as (
    select
        cluster,
        min(node) as node,
        device_id,
        hour_us,
        count(distinct place) > 1 or bool_and(owner <> '') as exporters
    from alternating
    group by cluster, device_id, hour_us
)
select
    cluster,
    coalesce(node, '?') as node,
    exporters,
    count(distinct device_id) as devices
from device_hour
group by all
order by all;
