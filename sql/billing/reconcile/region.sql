-- A row is a node with its newest region, NULL where no label names one.
select
    cluster,
    node,
    arg_max(labels ->> '$."topology.kubernetes.io/region"', coalesce(observed_us, 0)) as region
from node
group by cluster, node
order by all;
