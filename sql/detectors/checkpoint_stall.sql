-- A row is an hour of a job whose devices stop together at regular intervals.
-- Which jobs those are, and in which minutes they stop, is decided before (gpuwatch/advisor/periodic.py): checkpoint_hour has a row
-- a job and hour, checkpoint_minute one a minute of a pause.
-- The first hour of a chain also claims the pauses before it that made the pattern known.
with paused_minute as (
    select chain, hour_us as found_us, hour_us, minute, true as own
    from checkpoint_minute
    union all
    select chain, hour_us, minute * 60000000 // 3600000000 * 3600000000, minute, false
    from checkpoint_earlier
),
pause as (
    select
        m.chain,
        m.found_us,
        m.hour_us,
        h.run_id,
        h.device_id,
        min(d.start_us) filter (where m.own) as start_us,
        sum(d.gap_us) as gap_us,
        -- The ledger counts a pause of 15 minutes and more as hoarded; idle-hoarding leaves it to this rule.
        sum(d.hoarded_us) as hoarded_us
    from paused_minute m
    join held h on h.chain = m.chain
    join device_minute d
        on d.device_id = h.device_id and d.start_us >= h.start_us and d.start_us < h.end_us
        and d.hour_us = m.hour_us and d.start_us // 60000000 = m.minute
    where d.cluster = $cluster and d.hour_us >= $from_us and d.hour_us < $until_us
    group by m.chain, m.found_us, m.hour_us, h.run_id, h.device_id
),
bucket_time as (
    select
        p.*,
        (
            l.hoarded_us + l.gap_us + l.communication_us + l.stalled_us + l.below_roof_us + l.memory_roof_us
            + l.compute_us
        ) as observed_us
    from pause p
    join ledger_hour l
        on l.device_id = p.device_id and l.run_id = p.run_id and l.hour_us = p.hour_us
    where l.cluster = $cluster and l.hour_us >= $from_us and l.hour_us < $until_us
),
claimed as (
    select
        chain,
        found_us as hour_us,
        min(start_us) as start_us,
        list({
            'device_id': device_id,
            'run_id': run_id,
            'hour_us': hour_us,
            'bucket': 'gap',
            'us': greatest(gap_us - free_us, 0)::bigint
        })
        || list({
            'device_id': device_id,
            'run_id': run_id,
            'hour_us': hour_us,
            'bucket': 'hoarded',
            'us': greatest(hoarded_us - greatest(free_us - gap_us, 0), 0)::bigint
        }) as claims
    -- What a checkpoint that hides behind the work would still take.
    from (select *, round($free_ratio * observed_us) as free_us from bucket_time)
    group by chain, found_us
),
holding as (
    select
        h.chain,
        c.hour_us,
        list(distinct h.device_id) as device_ids,
        max(h.end_us) as end_us,
        bool_or(not j.ended) as running
    from checkpoint_hour c
    join held h
        on h.chain = c.chain and h.start_us < c.hour_us + 3600000000 and h.end_us > c.hour_us
    join job_chain j on j.run_id = h.run_id
    group by h.chain, c.hour_us
),
classed as (
    select j.chain, w.hour_us, arg_max(w.workload_class, (w.covered_us, w.workload_class)) as workload_class
    from workload_hour w
    join job_chain j using (run_id)
    where w.cluster = $cluster and w.hour_us >= $since_us and w.hour_us < $until_us
        and j.chain in (select chain from checkpoint_hour)
    group by j.chain, w.hour_us
)
select
    c.chain,
    coalesce(q.start_us, c.hour_us) as start_us,
    least(c.hour_us + 3600000000, h.end_us, greatest($known_until_us, coalesce(q.start_us, c.hour_us) + 60000000)) as end_us,
    h.running and least(c.hour_us + 3600000000, h.end_us) >= $known_until_us - $still_us as still,
    h.device_ids,
    c.confidence,
    map {
        'devices': len(h.device_ids)::double,
        'period_minutes': c.period_minutes,
        'duty_ratio': c.duty_ratio,
        'autocorrelation': c.autocorrelation,
        'pauses': c.pauses
    } as numbers,
    map {'workload_class': w.workload_class} as words,
    q.claims
from checkpoint_hour c
join holding h using (chain, hour_us)
left join claimed q using (chain, hour_us)
left join classed w using (chain, hour_us)
where h.end_us > coalesce(q.start_us, c.hour_us)
order by start_us, c.chain;
