-- A row is an hour of the ledger that the stored samples do not give again: it, or one of the two hours on either side, has
-- fewer samples than were recorded of it. The ledger of an hour is computed from these five.
with recorded as (
    select c.cluster, s.hour_us, sum(s.samples)::bigint as samples
    from context_span s
    join context c using (context_id)
    where s.hour_us // 86400000000 * 86400000000 in (select day_us from sealed_day)
    group by all
),
stored as (
    select c.cluster, s.observed_us // 3600000000 * 3600000000 as hour_us, count(*) as samples
    from sample s
    join context c using (context_id)
    group by all
),
short as (
    select r.cluster, r.hour_us
    from recorded r
    left join stored s using (cluster, hour_us)
    where coalesce(s.samples, 0) < r.samples
)
select r.cluster, r.hour_us, r.samples
from recorded r
where exists (from short s where s.cluster = r.cluster and abs(s.hour_us - r.hour_us) <= 7200000000)
    and not exists (from lost_hour l where l.cluster = r.cluster and l.hour_us = r.hour_us)
order by r.cluster, r.hour_us;
