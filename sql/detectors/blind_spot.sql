-- A row is a chain of runs that held devices which nobody measured for an hour or more. No money is claimed.
with blind_hour as (
    select
        l.device_id,
        l.run_id,
        l.hour_us,
        h.chain,
        greatest(l.hour_us, min(h.start_us)) as start_us,
        least(l.hour_us + 3600000000, max(h.end_us)) as end_us,
        max(h.end_us) >= max(h.run_end_us) as to_the_end
    from ledger_hour l
    join held h
        on h.device_id = l.device_id and h.run_id = l.run_id
        and h.start_us < l.hour_us + 3600000000 and h.end_us > l.hour_us
    where l.cluster = $cluster and l.unobserved_us > 0
        and l.hoarded_us + l.gap_us + l.communication_us + l.stalled_us + l.below_roof_us + l.memory_roof_us
        + l.compute_us = 0
        -- A busy GPU without SM_ACTIVE has no bucket but unobserved, and is measured all the same.
        and not exists (
            select 1
            from device_window w
            where w.cluster = l.cluster and w.hour_us = l.hour_us and w.device_id = l.device_id
                and coalesce(w.gr_engine_ratio, w.gpu_util_ratio, w.sm_active_ratio) is not null
        )
    group by l.device_id, l.run_id, l.hour_us, h.chain
),
linked as (
    select
        *,
        start_us is distinct from lag(end_us) over (partition by device_id, run_id order by start_us) as begins
    from blind_hour
),
numbered as (
    select *, count(*) filter (where begins) over (partition by device_id, run_id order by start_us) as number
    from linked
),
blind as (
    select chain, device_id, run_id, min(start_us) as start_us, max(end_us) as end_us
    from numbered
    group by chain, device_id, run_id, number
    having max(end_us) - min(start_us) >= $blind_us_min
),
chain_size as (
    select chain, count(distinct device_id) as devices
    from held
    group by chain
)
select
    b.chain,
    min(b.start_us) as started_us,
    max(b.end_us) as ended_us,
    bool_or(b.end_us >= c.end_us - $still_us and not c.ended) as still,
    1::bigint as share_den,
    '0' as wasted_units,
    1.0 as confidence,
    list(distinct b.device_id) as device_ids,
    json_object(
        'blind_devices', count(distinct b.device_id),
        'devices', any_value(s.devices),
        'unobserved_device_hours', round(sum(b.end_us - b.start_us) / 3600e6, 3),
        'never_measured', count(distinct b.device_id) filter (where not d.measured),
        'longest_hours', round(max(b.end_us - b.start_us) / 3600e6, 3)
    )::varchar as evidence
from blind b
join job_chain c using (run_id)
join chain_size s on s.chain = b.chain
join device d on d.device_id = b.device_id
where not c.exempt
group by b.chain
order by started_us, b.chain;
