-- A row is an item and one of its containers at one instant; items without a container have no parent.
with held as (
    select *
    from topology_edge
    where coalesce(cluster = $cluster, true)
        and coalesce(valid_from_us <= $at_us, true)
        and coalesce(valid_until_us > $at_us, true)
),
outermost as (
    select cluster, parent as child, parent_kind as child_kind, min(source) as source
    from held p
    where not exists (
        select 1 from held c where c.cluster = p.cluster and c.child = p.parent and c.child_kind = p.parent_kind
    )
    group by cluster, parent, parent_kind
),
thing as (
    select
        cluster, child_kind, child, parent_kind, parent, level, bandwidth_gb_per_s, nearest, source, observed_us,
        valid_from_us, valid_until_us
    from held
    union all
    select cluster, child_kind, child, null, null, null, null, true, source, null, null, null
    from outermost
)
select *
from thing
order by
    cluster,
    coalesce(list_position($kinds::varchar[], child_kind), 0) desc,
    child_kind,
    child,
    coalesce(list_position($kinds::varchar[], parent_kind), 1000),
    parent
limit $limit_rows offset $offset_rows;
