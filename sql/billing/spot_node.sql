-- A row is a node whose newest labels say that it is spot capacity.
with newest as (
    select cluster, node, arg_max(labels, (coalesce(observed_us, 0), labels)) as labels
    from node
    where labels is not null
    group by cluster, node
)
select cluster, node
from newest
where lower(labels ->> '$."karpenter.sh/capacity-type"') = 'spot'
    or lower(labels ->> '$."eks.amazonaws.com/capacityType"') = 'spot'
    or lower(labels ->> '$."kubernetes.azure.com/scalesetpriority"') = 'spot'
    or lower(labels ->> '$."cloud.google.com/gke-spot"') = 'true'
    or lower(labels ->> '$."cloud.google.com/gke-preemptible"') = 'true'
order by all;
