-- A row is a chain of runs that held devices without measurements for an hour or more. It claims no money.
-- Measured is a minute with a reading of activity: a busy GPU without SM_ACTIVE has no bucket but unobserved, and is
-- measured all the same.
with candidate as (
    select distinct l.device_id, l.run_id
    from ledger_hour l
    where l.cluster = $cluster and l.run_id in (select run_id from job_chain)
        -- An hour of silence leaves half an hour of it in some clock hour.
        and l.unobserved_us >= $blind_us_min // 2 and l.hour_us >= $since_us - 3600000000 and l.hour_us < $until_us
),
span as (
    -- What lies before the end of an exemption stays exempt.
    select h.chain, h.run_id, h.device_id, greatest(h.start_us, coalesce(j.exempt_until_us, 0)) as start_us, h.end_us, h.start_us as segment_us
    from held h
    join candidate c using (device_id, run_id)
    join job_chain j using (run_id)
    where h.end_us > coalesce(j.exempt_until_us, 0)
),
measured as (
    select s.chain, s.run_id, s.device_id, s.start_us as span_us, m.start_us, m.end_us
    from span s
    join device_minute m
        on m.cluster = $cluster and m.device_id = s.device_id and m.start_us >= s.start_us and m.start_us < s.end_us
    join device_window w
        on w.cluster = $cluster and w.device_id = m.device_id and w.segment_start_us = s.segment_us and w.hour_us = m.hour_us
        and w.start_us = m.start_us // 300000000 * 300000000
    where coalesce(w.gr_engine_ratio, w.gpu_util_ratio, w.sm_active_ratio) is not null
        and m.hour_us >= $since_us - 3600000000 and m.hour_us < $until_us
        and w.hour_us >= $since_us - 3600000000 and w.hour_us < $until_us
    union all
    select chain, run_id, device_id, start_us, start_us, start_us
    from span
    union all
    select chain, run_id, device_id, start_us, end_us, end_us
    from span
),
silence as (
    select
        chain,
        run_id,
        device_id,
        max(end_us) over (
            partition by device_id, run_id, span_us
            order by start_us, end_us
            rows between unbounded preceding and 1 preceding
        ) as start_us,
        start_us as end_us
    from measured
),
blind as (
    select *
    from silence
    where end_us - start_us >= $blind_us_min
),
chain_size as (
    select chain, count(distinct device_id) as devices
    from held
    group by chain
)
select
    b.chain,
    min(b.start_us) as start_us,
    max(b.end_us) as end_us,
    bool_or(b.end_us >= c.end_us - $still_us and not c.ended) as still,
    1.0 as confidence,
    list(distinct b.device_id) as device_ids,
    map {
        'blind_devices': count(distinct b.device_id)::double,
        'devices': any_value(s.devices)::double,
        'unobserved_device_hours': round(sum(b.end_us - b.start_us) / 3600e6, 3),
        'never_measured': (count(distinct b.device_id) filter (where not d.measured))::double,
        'longest_hours': round(max(b.end_us - b.start_us) / 3600e6, 3)
    } as numbers
from blind b
join job_chain c using (run_id)
join chain_size s on s.chain = b.chain
join device d on d.device_id = b.device_id
where not c.exempt
group by b.chain
order by start_us, b.chain;
