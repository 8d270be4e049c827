-- A row is a MIG slice and an hour of a job on it, where a smaller profile would have held all that the slice was used for in
-- seven days, or where the job ended because the slice's memory was full.
-- mig_fit (made before) has the smaller profiles of each profile: their memory, and their SMs and share by those of the slice.
with held_hour as materialized (
    select
        hour_us,
        device_id,
        profile,
        run_id,
        hoarded_us + gap_us + communication_us + stalled_us + below_roof_us + memory_roof_us + compute_us as seen_us,
        gap_us + communication_us + stalled_us + below_roof_us + memory_roof_us + compute_us as active_us,
        unobserved_us as unseen_us
    from ledger_hour
    where cluster = $cluster and hour_us >= $from_us and hour_us < $until_us
        and run_id is not null and profile is not null
),
slice_device as materialized (
    select distinct device_id from held_hour
),
memory as materialized (
    select device_id, hour_us, fb_used_max_bytes as memory_bytes
    from device_hour
    where cluster = $cluster and hour_us >= $from_us and hour_us < $until_us
        and device_id in (select device_id from slice_device)
),
work as materialized (
    select device_id, hour_us, run_id, sm_active_max_ratio as sm_ratio
    from workload_hour
    where cluster = $cluster and hour_us >= $from_us and hour_us < $until_us
        and device_id in (select device_id from slice_device)
),
used as materialized (
    select s.*, s.hour_us // 21600000000 * 21600000000 as block_us, m.memory_bytes, w.sm_ratio
    from held_hour s
    left join memory m on m.device_id = s.device_id and m.hour_us = s.hour_us
    left join work w on w.device_id = s.device_id and w.hour_us = s.hour_us and w.run_id = s.run_id
),
-- Six hours are a block. The result for an hour follows from the 28 whole blocks before its own.
block as materialized (
    select
        device_id,
        profile,
        block_us,
        sum(active_us) as active_us,
        sum(seen_us) as seen_us,
        sum(unseen_us) as unseen_us,
        max(memory_bytes) as memory_bytes,
        max(sm_ratio) as sm_ratio,
        count(*) as hours,
        -- An hour of work without a reading may have needed all of the slice.
        count(*) filter (where active_us > 0 and (memory_bytes is null or sm_ratio is null)) as dark_hours
    from used
    group by device_id, profile, block_us
),
asked_block as materialized (
    select distinct device_id, profile, block_us
    from used
    where hour_us >= $since_us and active_us > 0
),
week as (
    select
        a.device_id,
        a.profile,
        a.block_us,
        sum(b.active_us) as active_us,
        sum(b.seen_us) as seen_us,
        sum(b.unseen_us) as unseen_us,
        max(b.memory_bytes) as memory_bytes,
        max(b.sm_ratio) as sm_ratio,
        sum(b.hours) as hours,
        sum(b.dark_hours) as dark_hours
    from asked_block a
    join block b
        on b.device_id = a.device_id and b.profile = a.profile
        and b.block_us >= a.block_us - 604800000000 and b.block_us < a.block_us
    group by a.device_id, a.profile, a.block_us
),
fits as (
    select w.*, d.model, f.fit, f.sm_part, f.share_num, f.share_den
    from week w
    join device d on d.device_id = w.device_id and d.cluster = $cluster
    join mig_fit f on f.model = d.model and f.profile = w.profile
    where w.active_us >= $active_us_min
        and w.seen_us >= $coverage_min * (w.seen_us + w.unseen_us)
        and w.dark_hours = 0
        and f.memory_bytes >= $memory_headroom * w.memory_bytes
),
-- Hours of each block in which a smaller profile would have been busier than it may be: one in twenty is a peak.
over_block as materialized (
    select u.device_id, u.profile, u.block_us, f.fit, count(*) as hours
    from used u
    join device d on d.device_id = u.device_id and d.cluster = $cluster
    join mig_fit f on f.model = d.model and f.profile = u.profile
    where u.sm_ratio > $sm_load_max * f.sm_part
    group by u.device_id, u.profile, u.block_us, f.fit
),
over_week as (
    select f.device_id, f.profile, f.block_us, f.fit, sum(o.hours) as hours
    from fits f
    join over_block o
        on o.device_id = f.device_id and o.profile = f.profile and o.fit = f.fit
        and o.block_us >= f.block_us - 604800000000 and o.block_us < f.block_us
    group by f.device_id, f.profile, f.block_us, f.fit
),
best as materialized (
    select f.*, coalesce(o.hours, 0) / f.hours as over_ratio
    from fits f
    left join over_week o
        on o.device_id = f.device_id and o.profile = f.profile and o.block_us = f.block_us and o.fit = f.fit
    where coalesce(o.hours, 0) <= $peak_hours_max * f.hours
    qualify row_number() over (
        partition by f.device_id, f.profile, f.block_us order by f.share_num::double / f.share_den, f.fit
    ) = 1
),
worked as (
    select device_id, profile, block_us, hour_us, arg_max(run_id, (active_us, run_id)) as run_id
    from used
    where hour_us >= $since_us and hour_us < $known_until_us and active_us > 0
    group by device_id, profile, block_us, hour_us
),
fitting as materialized (
    select
        u.device_id,
        u.profile,
        u.hour_us,
        u.run_id,
        b.fit,
        b.share_num,
        b.share_den,
        b.memory_bytes,
        b.sm_ratio,
        b.over_ratio,
        b.active_us,
        d.gpu,
        d.gi
    from worked u
    join best b on b.device_id = u.device_id and b.profile = u.profile and b.block_us = u.block_us
    join device d on d.device_id = u.device_id and d.cluster = $cluster
    join run r on r.run_id = u.run_id and r.cluster = $cluster
    -- Exempt until a date, or kept large for a service that must answer at its peak.
    where not coalesce(try_cast(r.labels ->> '$."gpuwatch.io/exempt-until"' as timestamp) > make_timestamp(u.hour_us), false)
        and not coalesce(
            lower(coalesce(r.labels ->> '$."latency-critical"', r.labels ->> '$."gpuwatch.io/latency-critical"')) = 'true'
            or lower(coalesce(r.labels ->> '$."gpuwatch.io/workload-class"', r.labels ->> '$."workload-class"'))
                = 'latency-critical',
            false
        )
),
-- The part of the slice that the smaller profile leaves free is wasted wherever the slice did not work productively.
surplus as materialized (
    select
        f.device_id,
        f.profile,
        f.hour_us,
        l.run_id,
        unnest(['hoarded', 'gap', 'communication', 'stalled', 'below_roof']) as bucket,
        unnest([l.hoarded_us, l.gap_us, l.communication_us, l.stalled_us, l.below_roof_us]) as us,
        f.share_num,
        f.share_den
    from fitting f
    join ledger_hour l
        on l.cluster = $cluster and l.device_id = f.device_id and l.hour_us = f.hour_us and l.profile = f.profile
        and l.run_id is not null and l.hour_us >= $since_us and l.hour_us < $until_us
),
surplus_claim as (
    select
        device_id,
        profile,
        hour_us,
        list({
            'device_id': device_id,
            'run_id': run_id,
            'hour_us': hour_us,
            'bucket': bucket,
            'us': (us * (share_den - share_num) // share_den)::bigint
        }) filter (where us > 0) as claims
    from surplus
    group by device_id, profile, hour_us
),
-- Runs on a slice that failed; what the kernel or the scheduler killed for host memory, or took away, is not this.
failed as (
    select r.run_id, r.job_id, r.start_us, r.end_us, s.device_id, s.profile
    from run r
    join segment s on s.cluster = r.cluster and s.run_id = r.run_id
    where r.cluster = $cluster and r.ended and r.end_us > $from_us and r.end_us <= $until_us
        and s.profile is not null and s.end_us >= r.end_us - 1000000
        and coalesce(lower(r.state) in ('failed', 'error'), false)
),
ended_full as (
    select
        f.run_id,
        f.job_id,
        f.start_us,
        f.end_us,
        f.device_id,
        f.profile,
        max(
            coalesce(
                s.fb_used_bytes / nullif(s.fb_total_bytes, 0),
                s.fb_used_bytes / nullif(s.fb_used_bytes + s.fb_free_bytes + coalesce(s.fb_reserved_bytes, 0), 0)
            )
        ) filter (where s.observed_us > f.end_us - $before_exit_us) as full_ratio,
        max(s.fb_used_bytes) filter (where s.observed_us > f.end_us - $before_exit_us) as memory_bytes,
        min(
            coalesce(
                s.fb_used_bytes / nullif(s.fb_total_bytes, 0),
                s.fb_used_bytes / nullif(s.fb_used_bytes + s.fb_free_bytes + coalesce(s.fb_reserved_bytes, 0), 0)
            )
        ) as least_ratio,
        min(s.observed_us) as seen_from_us,
        coalesce(bool_or(s.xid_code in (31, 43, 45)), false) as is_xid
    from failed f
    join sample s
        on s.device_id = f.device_id and s.observed_us <= f.end_us
        and s.observed_us > greatest(f.start_us, f.end_us - $filled_us)
    where f.end_us > $since_us
        and s.observed_us > $since_us - $filled_us and s.observed_us <= $until_us
        and s.device_id in (select device_id from failed)
    group by all
),
crashed as (
    select
        e.*,
        (
            select count(distinct f.run_id)
            from failed f
            where f.job_id = e.job_id and f.end_us <= e.end_us and f.end_us > e.end_us - 86400000000
        ) as attempts,
        -- An allocator that reserves the whole slice at the start proves nothing.
        coalesce(e.least_ratio >= $allocator_fill_min and e.seen_from_us <= e.end_us - $before_exit_us * 5, false) as is_filled
    from ended_full e
    where e.full_ratio >= $full_ratio_min
),
next_larger as (
    select c.run_id, c.device_id, arg_min(p.profile, (p.memory_bytes, p.profile)) as fit
    from crashed c
    join device d on d.device_id = c.device_id and d.cluster = $cluster
    join mig_size p on p.model = d.model and p.memory_bytes > 1.1 * c.memory_bytes
    group by c.run_id, c.device_id
),
attempt_claim as (
    select
        c.run_id,
        c.device_id,
        list({'device_id': l.device_id, 'run_id': l.run_id, 'hour_us': l.hour_us, 'bucket': l.bucket, 'us': l.us})
            filter (where l.us > 0) as claims
    from crashed c
    join (
        select
            device_id,
            run_id,
            hour_us,
            unnest(['unobserved', 'hoarded', 'gap', 'communication', 'stalled', 'below_roof']) as bucket,
            unnest([unobserved_us, hoarded_us, gap_us, communication_us, stalled_us, below_roof_us]) as us
        from ledger_hour
        where cluster = $cluster and hour_us >= $since_us - $attempt_max_us and hour_us < $until_us
            and run_id in (select run_id from crashed)
    ) l on l.run_id = c.run_id and l.device_id = c.device_id
    where c.end_us - c.start_us <= $attempt_max_us
    group by c.run_id, c.device_id
)
select
    'slice' as subject_kind,
    f.gpu || '/GI-' || f.gi as subject_id,
    f.hour_us as start_us,
    least(f.hour_us + 3600000000, $known_until_us) as end_us,
    'low' as severity,
    0.8 as confidence,
    f.run_id,
    [f.device_id] as device_ids,
    map {
        'memory_gib': round(f.memory_bytes / 1073741824, 3),
        'sm_active_max_ratio': round(f.sm_ratio, 4),
        'peak_hours_ratio': round(f.over_ratio, 4),
        'active_hours': round(f.active_us / 3600e6, 2),
        'attempts': 0.0
    } as numbers,
    map {'verdict': 'oversized', 'profile': f.profile, 'fit': f.fit} as words,
    c.claims
from fitting f
left join surplus_claim c on c.device_id = f.device_id and c.profile = f.profile and c.hour_us = f.hour_us
union all
select
    'slice',
    d.gpu || '/GI-' || d.gi,
    greatest(c.start_us, (c.end_us - 1) // 3600000000 * 3600000000),
    c.end_us,
    case when c.attempts >= 2 then 'high' else 'medium' end,
    case when c.is_filled then 0.4 when c.is_xid or c.attempts >= 2 then 0.9 else 0.7 end,
    c.run_id,
    [c.device_id],
    map {
        'memory_gib': round(c.memory_bytes / 1073741824, 3),
        'full_ratio': round(c.full_ratio, 4),
        'attempts': c.attempts::double
    },
    map {'verdict': 'undersized', 'profile': c.profile, 'fit': coalesce(n.fit, '')},
    a.claims
from crashed c
join device d on d.device_id = c.device_id and d.cluster = $cluster
left join next_larger n on n.run_id = c.run_id and n.device_id = c.device_id
left join attempt_claim a on a.run_id = c.run_id and a.device_id = c.device_id
order by start_us, subject_id;
