-- A row is a span in which a node had taints that keep pods away, by its Kubernetes records. The first record reaches back.
with recorded as (
    select
        node,
        taints,
        observed_us,
        lag(observed_us) over w as previous_us,
        lead(observed_us) over w as next_us
    from (
        select node, coalesce(observed_us, 0) as observed_us, max(taints) as taints
        from node
        where cluster = $cluster and scheduler = 'kubernetes'
            and node in (select node from node where cluster = $cluster and taints is not null)
        group by node, coalesce(observed_us, 0)
    )
    window w as (partition by node order by observed_us)
)
select node, taints, case when previous_us is null then 0 else observed_us end as start_us, next_us as end_us
from recorded
where taints is not null
order by node, start_us;
