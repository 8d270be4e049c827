-- A row is a queue and an hour in which jobs waited below its own quota while others used more than theirs, or in which a
-- quota that its queue had not used for a week kept others waiting.
with hour as (
    select unnest(range($since_us // 3600000000, $until_us // 3600000000)) * 3600000000 as hour_us
),
-- Quota that others use; what a queue was promised to keep (Volcano: reclaimable false) is no loan.
lent as (
    select *
    from queue_span
    where borrowed > 0 and coalesce(preemption ->> '$.reclaimable', 'true') <> 'false' and end_us > start_us
),
lent_edge as (
    select scheduler, root, flavor, profile, start_us as at_us, borrowed from lent
    union all
    select scheduler, root, flavor, profile, end_us, -borrowed from lent
),
-- How much of a cohort's quota is lent, from one change to the next.
lent_step as (
    select
        scheduler,
        root,
        flavor,
        profile,
        at_us as start_us,
        lead(at_us) over steps as end_us,
        sum(sum(borrowed)) over steps as borrowed
    from lent_edge
    group by scheduler, root, flavor, profile, at_us
    window steps as (partition by scheduler, root, flavor, profile order by at_us)
),
lent_turn as (
    select
        *,
        start_us is distinct from lag(end_us) over (
            partition by scheduler, root, flavor, profile order by start_us
        ) as begins
    from lent_step
    where borrowed > 0 and end_us > start_us
),
lent_span as (
    select scheduler, root, flavor, profile, min(start_us) as start_us, max(end_us) as end_us, max(borrowed) as borrowed
    from (
        select
            *,
            count(case when begins then 1 end) over (
                partition by scheduler, root, flavor, profile order by start_us
            ) as number
        from lent_turn
    )
    group by scheduler, root, flavor, profile, number
),
-- A queue's span below its quota, cut to the spans in which its cohort lent the same kind of device: to others, as it
-- borrows nothing itself.
below as (
    select
        q.* replace (greatest(q.start_us, l.start_us) as start_us, least(q.end_us, l.end_us) as end_us),
        l.borrowed
    from (select * exclude (borrowed) from queue_span where used < quota and borrowed = 0) q
    join lent_span l
        on l.scheduler = q.scheduler and l.root = q.root and l.flavor = q.flavor and l.profile = q.profile
        and l.start_us < q.end_us and l.end_us > q.start_us
    where not regexp_matches(q.state, '(?i)hold|inactive|clos|stop|drain')
),
lending as (
    select
        *,
        greatest(
            case when regexp_matches(state, '(?i)hold|inactive|clos|stop|drain') then least(used, quota) else quota end
            - coalesce(kept, 0),
            0
        ) as lent
    from queue_span
    where quota is not null and end_us > start_us
),
-- How much of a cohort's quota is free for any of its queues, from one change to the next: what its queues lend less what is used
-- of that. A queue that is on hold lends nothing.
free_edge as (
    select scheduler, root, flavor, profile, start_us as at_us, lent - greatest(used - coalesce(kept, 0), 0) as free
    from lending
    union all
    select scheduler, root, flavor, profile, end_us, greatest(used - coalesce(kept, 0), 0) - lent
    from lending
    union all
    -- The cohorts' own quota is assumed to be as in their last record all the time.
    select 'kueue', root, flavor, profile, 0, lent from cohort_quota
),
free_step as (
    select
        scheduler,
        root,
        flavor,
        profile,
        at_us as start_us,
        lead(at_us) over steps as end_us,
        sum(sum(free)) over steps as free
    from free_edge
    group by scheduler, root, flavor, profile, at_us
    window steps as (partition by scheduler, root, flavor, profile order by at_us)
),
-- What waits and would fit in what its own queue has left, for as long as both were so and its cohort had too little free.
kept_waiting as (
    select
        b.scheduler,
        b.queue,
        b.root,
        b.flavor,
        b.profile,
        b.quota,
        b.used,
        b.borrowed,
        b.preemption ->> '$.reclaimWithinCohort' as reclaim,
        w.job,
        w.devices,
        w.start_us as since_us,
        greatest(b.start_us, w.start_us, f.start_us) as from_us,
        least(b.end_us, w.end_us, f.end_us) as to_us
    from below b
    join wait_span w
        on w.scheduler = b.scheduler and w.queue = b.queue and w.profile = b.profile
    join free_step f
        on f.scheduler = b.scheduler and f.root = b.root and f.flavor = b.flavor and f.profile = b.profile
        and f.start_us < b.end_us and f.end_us > b.start_us
    where w.devices <= b.quota - b.used
        -- Kueue admits what fits in the free quota of the cohort. Queues of other schedulers share nodes, not quota.
        and w.devices > greatest(coalesce(b.kept, 0) - b.used, 0)
            + case when b.scheduler = 'kueue' then greatest(f.free, 0) else 0 end
        and w.end_us - w.start_us >= $starved_us_min
        and w.start_us < least(b.end_us, f.end_us) and w.end_us > greatest(b.start_us, f.start_us)
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
        count(case when coalesce(after_pause, true) then 1 end) over (
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
        arg_max(used, (to_us, used)) as used,
        max(borrowed) as borrowed,
        any_value(root) as root,
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
borrower as (
    select p.scheduler, p.queue, p.flavor, p.profile, p.hour_us, arg_max(l.queue, (l.borrowed, l.queue)) as borrower
    from (
        select scheduler, queue, root, flavor, profile, hour_us, min(part_start_us) as start_us, max(part_end_us) as end_us
        from starved_part
        group by all
    ) p
    join lent l
        on l.scheduler = p.scheduler and l.root = p.root and l.flavor = p.flavor and l.profile = p.profile
        and l.queue <> p.queue and l.start_us < p.end_us and l.end_us > p.start_us
    group by all
),
starved as (
    select
        queue,
        min(part_start_us) as start_us,
        max(part_end_us) as end_us,
        case when max(part_end_us - since_us) >= $high_us then 'high' else 'medium' end as severity,
        -- A single observation of a queue counts less than a span.
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
            'flavor': arg_max(flavor, (devices, flavor)),
            'borrower': arg_max(borrower, (borrowed, borrower)),
            'reclaim': coalesce(any_value(reclaim), '')
        } as words
    from starved_part
    join borrower using (scheduler, queue, flavor, profile, hour_us)
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
        max(greatest(
            coalesce(from_json(used, '"MAP(VARCHAR,BIGINT)"')[profile], 0),
            coalesce(from_json(detail ->> '$.reserved', '"MAP(VARCHAR,BIGINT)"')[profile], 0)
        )) as used,
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
-- The part that no queue borrows either.
idle as (
    select u.*, u.quota_min - u.used_max - coalesce(l.borrowed, 0) as room
    from unused u
    left join (
        select scheduler, flavor, profile, hour_us, sum(borrowed) as borrowed
        from (
            select l.scheduler, l.queue, l.flavor, l.profile, h.hour_us, max(l.borrowed) as borrowed
            from lent l
            join hour h on h.hour_us < l.end_us and h.hour_us + 3600000000 > l.start_us
            group by all
        )
        group by all
    ) l on l.scheduler = u.scheduler and l.flavor = u.flavor and l.profile = u.profile and l.hour_us = u.hour_us
    where (u.scheduler, u.queue) not in (select (scheduler, queue) from wait_span)
),
-- Others that waited for no more, in queues that may use such devices at all.
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
    from idle u
    join (select distinct scheduler, queue, flavor, profile from queue_span) o
        on o.scheduler = u.scheduler and o.flavor = u.flavor and o.profile = u.profile and o.queue <> u.queue
    join wait_span w on w.scheduler = o.scheduler and w.queue = o.queue and w.profile = o.profile
    where w.devices <= u.room and w.start_us < u.hour_us + 3600000000 and w.end_us > u.hour_us
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
            'flavor': arg_max(flavor, (devices, flavor)),
            'borrower': arg_max(other, (waited_us, other)),
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
