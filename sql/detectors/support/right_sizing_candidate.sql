-- A row is an hour of a job that holds one whole device alone, with the most it used of it since it began, up to this hour.
-- memory and ratios: the most of five minutes. price: of the device in that hour, exact decimal text, NULL unknown.
with alone as (
    select h.chain
    from held h
    join device d using (device_id)
    group by h.chain
    having count(distinct h.device_id) = 1
        and bool_and(h.sure and h.share_num = h.share_den and d.gi < 0)
),
run_of as (
    select c.chain, c.run_id
    from job_chain c
    join alone using (chain)
    where not c.exempt and not c.latency_critical
),
used as (
    select
        r.chain,
        w.device_id,
        w.run_id,
        w.hour_us,
        w.workload_class,
        sum(w.covered_us) over life as covered_us,
        max(w.fb_used_max_bytes) over life as fb_bytes,
        max(w.sm_active_max_ratio) over life as sm_ratio,
        max(w.tensor_active_max_ratio) over life as tensor_ratio,
        max(w.dram_active_max_ratio) over life as dram_ratio,
        count(*) over life as hours,
        -- A reading that lacks in some hour is known in none.
        count(case
            when w.fb_used_max_bytes is not null and w.sm_active_max_ratio is not null
                and w.dram_active_max_ratio is not null then 1
        end) over life as hours_read,
        max(w.sm_active_ratio) over life as sm_mean_ratio
    from workload_hour w
    join run_of r using (run_id)
    where w.cluster = $cluster and w.hour_us < $until_us
    window life as (partition by r.chain order by w.hour_us rows between unbounded preceding and current row)
),
held_hour as (
    select l.run_id, l.hour_us, sum(
        l.unobserved_us + l.hoarded_us + l.gap_us + l.communication_us + l.stalled_us + l.below_roof_us + l.memory_roof_us
        + l.compute_us
    ) as held_us
    from ledger_hour l
    join run_of r using (run_id)
    where l.cluster = $cluster and l.hour_us < $until_us
    group by l.run_id, l.hour_us
),
held_life as (
    select r.chain, h.hour_us, sum(h.held_us) over (partition by r.chain order by h.hour_us) as held_us
    from held_hour h
    join run_of r using (run_id)
),
reported as (
    select distinct hour_us, subject_id
    from verdict
    where cluster = $cluster and detector = 'false-utilization' and subject_kind = 'job'
        and hour_us >= $since_us and hour_us < $until_us
)
select
    u.chain,
    u.run_id,
    u.device_id,
    u.hour_us,
    d.model,
    u.workload_class,
    u.covered_us::bigint as covered_us,
    u.fb_bytes,
    u.sm_ratio,
    u.tensor_ratio,
    u.dram_ratio,
    p.usd_per_gpu_hour as price,
    p.currency
from used u
join held_life l on l.chain = u.chain and l.hour_us = u.hour_us
join device d on d.device_id = u.device_id and d.cluster = $cluster
join (select chain, any_value(job_id) as job_id from job_chain group by chain) j on j.chain = u.chain
left join device_price p
    on p.cluster = $cluster and p.device_id = u.device_id and p.profile is null
    and p.start_us <= u.hour_us and p.end_us > u.hour_us
where u.hour_us >= $since_us and u.hour_us < $until_us
    and u.covered_us >= $covered_us_min and u.covered_us >= $coverage_min * l.held_us
    and u.hours_read = u.hours
    and u.sm_mean_ratio >= $sm_active_min and u.workload_class <> 'idle'
    and u.sm_ratio < $sm_active_max
    and (u.hour_us, j.job_id) not in (select (hour_us, subject_id) from reported)
order by u.chain, u.hour_us;
