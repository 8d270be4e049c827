-- A row is a node: its NVIDIA device time with an estimated holder (and whose jobs these are), with two
-- holders, and unmeasured. `schedulers`: those that
-- have records of jobs on it.
with gap as (
    select d.cluster, d.node, sum(l.unobserved_us) as unobserved_us
    from ledger_hour l
    join device d on d.device_id = l.device_id and d.cluster = l.cluster
    where l.hour_us >= $since_us and d.kind is null
    group by all
),
claiming as (
    select cluster, node, list_sort(list(distinct scheduler)) as schedulers
    from claim
    where coalesce(end_us, $since_us) >= $since_us
    group by all
)
select
    d.cluster,
    coalesce(d.node, '?') as node,
    coalesce(sum(s.end_us - greatest(s.start_us, $since_us)) filter (where s.estimated), 0)::bigint as estimated_us,
    list_sort(list(distinct
        case when (r.labels ->> '$.placement') = 'estimated' then 'trace' else r.scheduler end
    ) filter (where s.estimated)) as estimated_by,
    coalesce(sum(s.end_us - greatest(s.start_us, $since_us)) filter (where s.conflict), 0)::bigint as conflict_us,
    any_value(c.schedulers) as schedulers,
    sum(s.end_us - greatest(s.start_us, $since_us))::bigint as held_us,
    coalesce(any_value(g.unobserved_us), 0)::bigint as unobserved_us
from segment s
join device d on d.device_id = s.device_id and d.cluster = s.cluster
left join run r on r.run_id = s.run_id and r.cluster = s.cluster
left join gap g on g.cluster = d.cluster and g.node is not distinct from d.node
left join claiming c on c.cluster = d.cluster and c.node = d.node
where s.run_id is not null and s.end_us > $since_us and d.kind is null
group by all
order by all;
