-- A row is a UTC day without data: one on which a cluster that is sampled before and after it had no sample and no held GPU.
with span as (
    select cluster, greatest(min(day_us), $start_us) as first_us, least(max(day_us), $end_us) as last_us
    from team_day
    where cluster in (select distinct cluster from device where measured)
    group by cluster
),
each_day as (
    select cluster, unnest(range(first_us, last_us, 86400000000)) as day_us from span
),
quiet as (
    select e.cluster, e.day_us
    from each_day e
    where not exists (select 1 from team_day t where t.cluster = e.cluster and t.day_us = e.day_us and t.held)
)
select distinct day_us
from quiet q
where not exists (
    select 1
    from device_window w
    where w.cluster = q.cluster and w.start_us >= q.day_us and w.start_us < q.day_us + 86400000000 and w.covered_us > 0
)
order by day_us;
