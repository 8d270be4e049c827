-- A row is a team, a kind of work (views/work_kind.sql) and its GPU-seconds in a bucket of the window, by whole hours, with their
-- price where all of them have one. These are weights by which the ledger's amounts are divided.
with held as (
    select
        l.run_id,
        l.cluster,
        sum(
            case $bucket
                when 'hoarded' then l.hoarded_us
                when 'gap' then l.gap_us
                when 'communication' then l.communication_us
                when 'stalled' then l.stalled_us
            end::double * l.share_num / l.share_den
        ) as bucket_us,
        -- The price in the middle of the hour.
        sum(
            case $bucket
                when 'hoarded' then l.hoarded_us
                when 'gap' then l.gap_us
                when 'communication' then l.communication_us
                when 'stalled' then l.stalled_us
            end::double * l.share_num / l.share_den * p.usd_per_gpu_hour::double
        ) as value,
        count(*) filter (where p.usd_per_gpu_hour is null) as unpriced
    from ledger_hour l
    left join device d on d.device_id = l.device_id and d.cluster = l.cluster
    left join device_price p
        on p.device_id = l.device_id and p.cluster = l.cluster and p.profile is not distinct from l.profile
        and p.start_us <= l.hour_us + 1800000000 and p.end_us > l.hour_us + 1800000000
    where l.hour_us < $end_us and l.hour_us + 3600000000 > $start_us and l.run_id is not null
        and ($cluster is null or l.cluster = $cluster)
        and ($pool is null or d.pool = $pool)
    group by l.run_id, l.cluster
),
named as (
    select
        coalesce(t.team, '__unallocated__') as team,
        work_kind(r.scheduler, r.labels, r.queue, r.namespace, r.name) as kind,
        h.bucket_us,
        h.value,
        h.unpriced
    from held h
    join run r on r.run_id = h.run_id and r.cluster = h.cluster
    left join run_team t on t.run_id = h.run_id and t.cluster = h.cluster
    where h.bucket_us > 0
        and ($teams::varchar[] is null or list_contains($teams, coalesce(t.team, '__unallocated__')))
)
select team, kind, sum(bucket_us) / 1e6 as gpu_seconds, case when sum(unpriced) = 0 then sum(value) end as value
from named
group by all
order by team, kind;
