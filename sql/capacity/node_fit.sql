-- A row is a node or a GPU without one: its pool, its models, and what Kubernetes' last record before $until_us says of labels and
-- taints, or else its first: the first record reaches back.
-- elsewhere: only other schedulers have a record of it, and Kubernetes has records of its own nodes: no pod can be placed there.
with last_record as (
    select node, arg_max_null(labels, nearness) as labels, arg_max_null(taints, nearness) as taints, count(*) as records
    from (
        select *, case when coalesce(observed_us, 0) < $until_us then coalesce(observed_us, 0) else -observed_us end as nearness
        from node
        where cluster = $cluster and scheduler = 'kubernetes'
    )
    group by node
),
other_record as (
    select distinct node
    from node
    where cluster = $cluster and scheduler <> 'kubernetes'
)
select
    coalesce(d.node, d.gpu) as place,
    any_value(d.pool) as pool,
    list(distinct d.model) filter (where d.model is not null) as models,
    any_value(r.labels) as labels,
    any_value(r.taints) as taints,
    any_value(r.records) is not null as recorded,
    any_value(r.records) is null and any_value(o.node) is not null and exists (from last_record) as elsewhere
from device d
left join last_record r on r.node = d.node
left join other_record o on o.node = d.node
where d.cluster = $cluster
group by coalesce(d.node, d.gpu)
order by place;
