-- A row is a queue and an hour in which jobs waited below its own quota while others used more than theirs, or in which a
-- quota that its queue had not used for a week kept others waiting: D15 of domain.md 3.2.
with hour as (
    select unnest(range($since_us // 3600000000, $until_us // 3600000000)) * 3600000000 as hour_us
),
-- Quota that others use; what a queue was promised to keep (Volcano: reclaimable false) is no loan.
lent as (
    select *
    from queue_span
    where borrowed > 0 and coalesce(preemption ->> '$.reclaimable', 'true') <> 'false' and end_us > start_us
),
-- A queue's span below its quota, cut to the spans in which another of its cohort borrowed the same kind of device.
below as (
    select
        q.scheduler,
        q.queue,
        q.flavor,
        q.profile,
        q.quota,
        q.used,
        greatest(q.start_us, l.start_us) as start_us,
        least(q.end_us, l.end_us) as end_us,
        sum(l.borrowed) as borrowed,
        arg_max(l.queue, l.borrowed) as borrower,
        any_value(q.preemption ->> '$.reclaimWithinCohort') as reclaim
    from queue_span q
    join lent l
        on l.scheduler = q.scheduler and l.root = q.root and l.flavor = q.flavor and l.profile = q.profile
        and l.queue <> q.queue and l.start_us < q.end_us and l.end_us > q.start_us
    where q.used < q.quota
        and not regexp_matches(q.state, '(?i)hold|inactive|clos|stop|drain')
    group by all
),
-- What waits and would fit in what its own queue has left, for as long as both were so.
kept_waiting as (
    select
        b.*,
        w.job,
        w.devices,
        w.start_us as since_us,
        greatest(b.start_us, w.start_us) as from_us,
        least(b.end_us, w.end_us) as to_us
    from below b
    join wait_span w
        on w.scheduler = b.scheduler and w.queue = b.queue and w.profile = b.profile
        and w.start_us < b.end_us and w.end_us > b.start_us
    where w.devices <= b.quota - b.used
),
reached as (
    select
        *,
        from_us > max(to_us) over (
            partition by scheduler, queue, flavor, profile, job
            order by from_us, to_us
            rows between unbounded preceding and 1 preceding
        ) as after_pause
    from kept_waiting
    where to_us > from_us
),
numbered as (
    select
        *,
        count(*) filter (where coalesce(after_pause, true)) over (
            partition by scheduler, queue, flavor, profile, job order by from_us, to_us
        ) as number
    from reached
),
stretch as (
    select
        scheduler,
        queue,
        flavor,
        profile,
        job,
        max(devices) as devices,
        min(since_us) as since_us,
        min(from_us) as from_us,
        max(to_us) as to_us,
        min(quota) as quota,
        min(quota - used) as room,
        arg_max(used, to_us) as used,
        max(borrowed) as borrowed,
        arg_max(borrower, borrowed) as borrower,
        any_value(reclaim) as reclaim
    from numbered
    group by scheduler, queue, flavor, profile, job, number
),
-- One hour of a wait that has lasted long enough by the end of that hour.
starved_part as (
    select
        s.*,
        h.hour_us,
        greatest(s.from_us, h.hour_us) as part_start_us,
        least(s.to_us, h.hour_us + 3600000000) as part_end_us
    from stretch s
    join hour h on h.hour_us < s.to_us and h.hour_us + 3600000000 > s.from_us
    where least(s.to_us, h.hour_us + 3600000000) - s.from_us >= $starved_us_min
),
starved as (
    select
        queue,
        min(part_start_us) as start_us,
        max(part_end_us) as end_us,
        case when max(part_end_us - since_us) >= $high_us then 'high' else 'medium' end as severity,
        -- One sighting of a queue says less than a span of them.
        case when max(to_us - from_us) > $starved_us_min then 0.9 else 0.6 end as confidence,
        map {
            'waiting_jobs': count(distinct job)::double,
            'waiting_devices': list_sum(map_values(map_from_entries(list(distinct {'k': job, 'v': devices}))))::double,
            'longest_wait_minutes': max(part_end_us - since_us) / 60e6,
            'quota_devices': max(quota)::double,
            'used_devices': max(used)::double,
            'borrowed_devices': max(borrowed)::double,
            'unmet_gpu_hours': least(
                sum(devices * (part_end_us - part_start_us)::hugeint),
                max(room) * (max(part_end_us) - min(part_start_us))::hugeint
            ) / 3600e6
        } as numbers,
        map {
            'case': 'starved',
            'flavor': arg_max(flavor, devices),
            'borrower': arg_max(borrower, borrowed),
            'reclaim': coalesce(any_value(reclaim), '')
        } as words
    from starved_part
    group by queue, hour_us
),
-- The most that each queue used in an hour, and the least that it might have.
queue_hour as (
    select
        scheduler,
        name as queue,
        coalesce(flavor, '') as flavor,
        hour_us,
        profile,
        max(coalesce(from_json(used, '"MAP(VARCHAR,BIGINT)"')[profile], 0)) as used,
        min(from_json(quota, '"MAP(VARCHAR,BIGINT)"')[profile]) as quota
    from (
        select
            *,
            observed_us // 3600000000 * 3600000000 as hour_us,
            unnest(map_keys(from_json(quota, '"MAP(VARCHAR,BIGINT)"'))) as profile
        from queue
        where cluster = $cluster and kind in ('cluster_queue', 'queue') and quota is not null and used is not null
            and scheduler in ('kueue', 'volcano', 'yunikorn') and (scheduler <> 'kueue' or flavor is not null)
            and observed_us >= $since_us - $week_us and observed_us < $until_us
    )
    group by all
),
week as (
    select
        *,
        max(used) over days as used_max,
        min(quota) over days as quota_min,
        count(*) over days as hours,
        min(hour_us) over days as first_us
    from queue_hour
    window days as (
        partition by scheduler, queue, flavor, profile
        order by hour_us
        range between $week_us preceding and current row
    )
),
unused as (
    select *
    from week
    where hour_us >= $since_us and quota_min > 0 and used_max < $used_max * quota_min
        and hour_us - first_us >= $week_us - 3600000000 and hours >= $coverage_min * $week_us / 3600000000
),
-- Others that waited for as many devices as lie unused, and that nobody lends.
waiting_other as (
    select
        u.queue,
        u.hour_us,
        u.flavor,
        u.quota_min as quota,
        u.used_max as used,
        w.job,
        w.queue as other,
        w.devices,
        greatest(w.start_us, u.hour_us) as start_us,
        least(w.end_us, u.hour_us + 3600000000) as end_us,
        least(w.end_us, u.hour_us + 3600000000) - w.start_us as waited_us
    from unused u
    join wait_span w
        on w.scheduler = u.scheduler and w.queue <> u.queue and w.profile = u.profile
        and w.start_us < u.hour_us + 3600000000 and w.end_us > u.hour_us
    where w.devices <= u.quota_min - u.used_max - coalesce(
        (
            select sum(most)
            from (
                select max(l.borrowed) as most
                from lent l
                where l.scheduler = u.scheduler and l.flavor = u.flavor and l.profile = u.profile
                    and l.start_us < u.hour_us + 3600000000 and l.end_us > u.hour_us
                group by l.queue
            )
        ),
        0
    )
        -- The other queue may use such devices at all: it has a quota, or a flavor, of this kind.
        and exists (
            select 1
            from queue_span o
            where o.scheduler = w.scheduler and o.queue = w.queue and o.flavor = u.flavor and o.profile = u.profile
        )
        and u.queue not in (select queue from wait_span own where own.scheduler = u.scheduler)
),
reserved as (
    select
        queue,
        min(start_us) as start_us,
        max(end_us) as end_us,
        'low' as severity,
        0.8 as confidence,
        map {
            'waiting_jobs': count(distinct job)::double,
            'waiting_devices': list_sum(map_values(map_from_entries(list(distinct {'k': job, 'v': devices}))))::double,
            'longest_wait_minutes': max(waited_us) / 60e6,
            'quota_devices': max(quota)::double,
            'used_devices': max(used)::double
        } as numbers,
        map {
            'case': 'idle reservation',
            'flavor': arg_max(flavor, devices),
            'borrower': arg_max(other, waited_us),
            'reclaim': ''
        } as words
    from waiting_other
    where waited_us >= $starved_us_min
    group by queue, hour_us
)
select 'queue' as subject_kind, queue as subject_id, queue as subject_name, * exclude (queue)
from (
    select * from starved
    union all
    select * from reserved
)
order by start_us, subject_id;
