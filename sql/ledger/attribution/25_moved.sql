-- A row is a GPU that was moved, a node that it was on, and from when to when: nodes that its scheduler knows, one after the
-- other. An exporter that names another node now and then, or two that read one GPU, move nothing.
with stay as (
    select
        s.device_id,
        coalesce(a.scheduler_node, s.node) as node,
        min(s.first_us) as first_us,
        max(s.last_us) as last_us
    from seen_context s
    left join node_alias a on a.node = s.node
    where s.gi = -1 and s.node is not null
        and s.device_id in (select device_id from seen_context where node is not null group by device_id having count(distinct node) > 1)
    group by all
),
ordered as (
    select
        *,
        coalesce(first_us > lag(last_us) over (partition by device_id order by first_us), true) as follows,
        node in (select node from wanted where node is not null) or node in (select node from site) as known
    from stay
)
select device_id, node, first_us, last_us
from ordered
where device_id in (
    select device_id from ordered group by device_id having count(*) > 1 and bool_and(follows and known)
)
order by device_id, first_us;
