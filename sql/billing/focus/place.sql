-- A row of focus_place is a node and the location in its newest labels.
create or replace temp table focus_place as
select
    cluster,
    node,
    arg_max(region, (observed_us, region)) as region,
    arg_max(zone, (observed_us, zone)) as zone
from (
    select
        cluster,
        node,
        coalesce(observed_us, 0) as observed_us,
        labels ->> '$."topology.kubernetes.io/region"' as region,
        labels ->> '$."topology.kubernetes.io/zone"' as zone
    from node
    where json_valid(labels) and contains(labels, 'topology.kubernetes.io/')
)
group by cluster, node;
