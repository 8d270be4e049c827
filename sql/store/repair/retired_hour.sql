-- A row is an hour of a cluster on a retired day in a span, and how many of its samples were stored and are still there.
with recorded as (
    select c.cluster, s.hour_us, sum(s.samples) as recorded
    from context_span s
    join context c using (context_id)
    where s.hour_us >= $kept_from_us and s.first_us < $from_us
        and s.hour_us // 86400000000 * 86400000000 not in (select day_us from sealed_day)
    group by all
),
stored as (
    select c.cluster, t.observed_us // 3600000000 * 3600000000 as hour_us, count(*) as stored
    from sample t
    join context c using (context_id)
    where t.observed_us >= $kept_from_us and t.observed_us < $from_us
    group by all
)
select r.cluster, r.hour_us, r.recorded, coalesce(s.stored, 0) as stored
from recorded r
left join stored s using (cluster, hour_us)
order by r.hour_us, r.cluster;
