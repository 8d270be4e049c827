-- A row is a node or a GPU without one: its pool, its models, and what the last records before $until_us say, or else the first
-- ones (the first record reaches back): Kubernetes' of labels and taints, Slurm's of partitions and features.
-- elsewhere: only other schedulers have a record of it, and Kubernetes has records of its own nodes: no pod can be placed there.
with last_record as (
    select
        node,
        scheduler = 'kubernetes' as kubernetes,
        arg_max_null(labels, nearness) filter (where scheduler in ('kubernetes', 'slurm')) as labels,
        arg_max_null(taints, nearness) as taints
    from (
        select *, case when coalesce(observed_us, 0) < $until_us then coalesce(observed_us, 0) else -observed_us end as nearness
        from node
        where cluster = $cluster
    )
    group by all
)
select
    coalesce(d.node, d.gpu) as place,
    any_value(d.pool) as pool,
    list(distinct d.model) filter (where d.model is not null) as models,
    any_value(r.labels) as labels,
    any_value(r.taints) as taints,
    any_value(r.node) is not null as recorded,
    any_value(r.node) is null and any_value(o.node) is not null
    and exists (from last_record where kubernetes) as elsewhere,
    any_value(o.labels) as slurm_labels
from device d
left join last_record r on r.node = d.node and r.kubernetes
left join last_record o on o.node = d.node and not o.kubernetes
where d.cluster = $cluster
group by coalesce(d.node, d.gpu)
order by place;
