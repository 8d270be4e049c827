-- A row is a node with its newest region, NULL where no label names one.
select
    cluster,
    node,
    arg_max(region, (observed_us, region)) as region
from (
    select
        cluster,
        node,
        coalesce(observed_us, 0) as observed_us,
        labels ->> '$."topology.kubernetes.io/region"' as region
    from node
)
group by cluster, node
order by all;
