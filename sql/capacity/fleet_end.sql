-- A row is a cluster: its newest sample, and the time up to which the ledger knows every device and holder.
with last_sample as (
    select device_id, max(observed_us) as last_us
    from sample_tail
    group by device_id
),
seen as (
    select d.*, greatest(d.last_us, t.last_us) as newest_us
    from device d
    left join last_sample t using (device_id)
),
sampled as (
    select
        cluster,
        max(newest_us) as newest_us,
        -- What every device of a cluster has reported lies an interval behind what the first one has.
        (max(last_us) - median(last_interval_us) filter (where last_us is not null))::bigint as sure_us
    from seen
    group by cluster
),
scheduler_end as (
    select cluster, scheduler, max(end_us) as told_us
    from run
    where not ended
    group by cluster, scheduler
)
-- An old scheduler record does not describe the present; the ledger is complete up to a recent one.
select
    s.cluster,
    s.newest_us,
    coalesce(
        least(
            s.sure_us,
            min(t.told_us) filter (where s.sure_us is null or t.told_us > s.sure_us - $stale_us)
        ),
        (select max(end_us) from capacity c where c.cluster = s.cluster)
    ) // 60000000 * 60000000 as as_of_us
from sampled s
left join scheduler_end t using (cluster)
group by s.cluster, s.newest_us, s.sure_us
order by s.cluster;
