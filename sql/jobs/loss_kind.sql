-- A row is a team, a kind of work (views/work_kind.sql) and its GPU-seconds in a bucket of the window, by whole hours, with their
-- price where all of them have one. These are weights by which the ledger's amounts are divided. Whole days, as
-- views/whole_days.sql found them, are read from their sums: runs that word_day merges are of one team and one kind.
with hour as (
    select l.*
    from (
        select *
        from ledger_hour
        where hour_us < getvariable('rolled_from_us') and hour_us + 3600000000 > $start_us
        union all
        select *
        from ledger_hour
        where hour_us >= getvariable('rolled_until_us') and hour_us < $end_us and hour_us + 3600000000 > $start_us
    ) l
    left join device d on d.device_id = l.device_id and d.cluster = l.cluster
    where l.run_id is not null and ($cluster is null or l.cluster = $cluster) and ($pool is null or d.pool = $pool)
),
part as (
    select
        l.cluster,
        l.run_id,
        l.share_num,
        l.share_den,
        p.usd_per_gpu_hour as price, -- in the middle of the hour
        l.hoarded_us,
        l.gap_us,
        l.communication_us,
        l.stalled_us
    from hour l
    left join device_price p
        on p.device_id = l.device_id and p.cluster = l.cluster and p.profile is not distinct from l.profile
        and p.start_us <= l.hour_us + 1800000000 and p.end_us > l.hour_us + 1800000000
    union all
    select
        w.cluster,
        w.run_id,
        w.share_num,
        w.share_den,
        p.usd_per_gpu_hour,
        w.hoarded_us,
        w.gap_us,
        w.communication_us,
        w.stalled_us
    from word_day w
    join class_price p
        on p.class_id = w.class_id and p.cluster = w.cluster and p.start_us <= w.day_us and p.end_us > w.day_us
    where w.day_us >= getvariable('rolled_from_us') and w.day_us < getvariable('rolled_until_us')
        and w.run_id is not null
        and ($cluster is null or w.cluster = $cluster)
        and ($pool is null or p.pool = $pool)
),
held as (
    select
        cluster,
        run_id,
        share_num,
        share_den,
        price,
        sum(
            case $bucket
                when 'hoarded' then hoarded_us
                when 'gap' then gap_us
                when 'communication' then communication_us
                when 'stalled' then stalled_us
            end
        ) as bucket_us
    from part
    group by all
    having bucket_us > 0
),
-- Whole numbers first: their sums do not depend on the order of rows.
named as (
    select
        coalesce(t.team, '__unallocated__') as team,
        work_kind(r.scheduler, r.labels, r.queue, r.namespace, r.name) as kind,
        h.share_num,
        h.share_den,
        h.price,
        sum(h.bucket_us) as bucket_us
    from held h
    join run r on r.run_id = h.run_id and r.cluster = h.cluster
    left join run_team t on t.run_id = h.run_id and t.cluster = h.cluster
    where $teams::varchar[] is null or list_contains($teams, coalesce(t.team, '__unallocated__'))
    group by all
)
select
    team,
    kind,
    sum(bucket_us::double * share_num / share_den) / 1e6 as gpu_seconds,
    case
        when count(price) = count(*) then sum(bucket_us::double * share_num / share_den * price::double)
    end as value
from named
group by all
order by team, kind;
