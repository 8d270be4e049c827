-- A row is a pool to which several authorities wrote in the window, and how many of its nodes more than one of them used.
with by_node as (
    select cluster, pool, node, count(distinct authority) as authorities, list(distinct authority) as names
    from audit_used
    where authority not in ('inner', 'unknown')
    group by cluster, pool, node
)
select
    cluster,
    pool,
    list_sort(list_distinct(flatten(list(names)))) as authorities,
    count(*) as nodes,
    count(*) filter (where authorities > 1) as shared_nodes
from by_node
group by cluster, pool
having len(list_distinct(flatten(list(names)))) > 1
order by cluster, pool
limit $limit;
