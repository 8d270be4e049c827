-- A row of focus_place is a node and the location in its newest labels.
create or replace temp table focus_place as
select
    cluster,
    node,
    arg_max(labels ->> '$."topology.kubernetes.io/region"', observed_us) as region,
    arg_max(labels ->> '$."topology.kubernetes.io/zone"', observed_us) as zone
from node
where json_valid(labels) and contains(labels, 'topology.kubernetes.io/')
group by cluster, node;
