-- A row of checkpoint_candidate is a chain whose devices pause together in some minutes of the judged hours and work in most
-- others, or that was found to do so in the hours before.
create or replace temp table checkpoint_candidate as
with mine as (
    select h.chain, h.device_id, h.start_us, h.end_us
    from held h
    join job_chain c using (run_id)
    where h.sure and not c.exempt and h.start_us < $until_us and h.end_us > $since_us
),
active as (
    select device_id, run_id
    from ledger_hour
    where cluster = $cluster and hour_us >= $since_us and hour_us < $until_us and run_id is not null
    group by device_id, run_id
    -- A pause in some hour, and work in some.
    having max(gap_us + hoarded_us) > $gap_us_min and sum(memory_roof_us + compute_us + below_roof_us) > 0
),
joint_minute as (
    select
        m.chain,
        d.start_us // 60000000 as minute,
        -- A pause of a quarter of an hour and more is booked as hoarded.
        avg((d.gap_us + d.hoarded_us) / (d.end_us - d.start_us)) as gap,
        min((d.gap_us + d.hoarded_us) / (d.end_us - d.start_us)) as least_gap
    from device_minute d
    join mine m on m.device_id = d.device_id and d.start_us >= m.start_us and d.start_us < m.end_us
    where d.cluster = $cluster and d.hour_us >= $since_us and d.hour_us < $until_us
        and d.device_id in (select device_id from active)
        and d.end_us - d.start_us >= 30000000
    group by m.chain, d.start_us // 60000000
),
levelled as (
    select chain, median(gap) as baseline
    from joint_minute
    group by chain
)
select j.chain
from joint_minute j
join levelled l using (chain)
where l.baseline <= $baseline_max
group by j.chain
having count(*) filter (where j.gap >= l.baseline + $height_min and j.least_gap >= $together_min * j.gap) > 0
union
select distinct c.chain
from verdict v
join job_chain c on c.job_id = v.subject_id and c.chain_start_us = v.cause_us
where v.cluster = $cluster and v.detector = 'checkpoint-stall' and v.subject_kind = 'job'
    and v.hour_us >= $from_us and v.hour_us < $until_us;
