-- A row is a measured node: its newest sample, that of its cluster, and its longest usual interval.
with last_sample as (
    select device_id, max(observed_us) as last_us
    from sample_tail
    group by device_id
),
node_sample as (
    select
        d.cluster,
        d.node,
        max(greatest(d.last_us, t.last_us)) as newest_us,
        max(d.last_interval_us) as interval_us,
        count(distinct d.gpu) as gpus
    from device d
    left join last_sample t using (device_id)
    where d.measured and d.node is not null
    group by d.cluster, d.node
)
select *, max(newest_us) over (partition by cluster) as cluster_newest_us
from node_sample
order by cluster, node;
