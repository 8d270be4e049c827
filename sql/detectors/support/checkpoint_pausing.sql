-- Leaves those candidates whose devices pause together in some minute of a few evaluated hours, or that were found to do so
-- in the day before: what spares reading a day of all others.
create or replace temp table checkpoint_pausing as
with mine as (
    select c.number, h.device_id, h.start_us, h.end_us
    from held h
    join checkpoint_candidate c using (chain)
    where h.sure and h.start_us < $until_us and h.end_us > $since_us
),
joint_minute as (
    select
        m.number,
        exact_mean((d.gap_us + d.hoarded_us) / (d.end_us - d.start_us)) as gap,
        min((d.gap_us + d.hoarded_us) / (d.end_us - d.start_us)) as least_gap
    from device_minute d
    join mine m on m.device_id = d.device_id and d.start_us >= m.start_us and d.start_us < m.end_us
    where d.cluster = $cluster and d.hour_us >= $since_us and d.hour_us < $until_us
        and d.end_us - d.start_us >= 30000000
    group by m.number, d.start_us // 60000000
),
levelled as (
    select number, median(gap) as baseline
    from joint_minute
    group by number
)
select j.number
from joint_minute j
join levelled l using (number)
where l.baseline <= $baseline_max
group by j.number
having count(*) filter (where j.gap >= l.baseline + $height_min and j.least_gap >= $together_min * j.gap) > 0
union
select c.number
from verdict v
join job_chain j on j.job_id = v.subject_id and j.chain_start_us = v.cause_us
join checkpoint_candidate c on c.chain = j.chain
where v.cluster = $cluster and v.detector = 'checkpoint-stall' and v.subject_kind = 'job'
    and v.hour_us >= $from_us and v.hour_us < $until_us;

delete from checkpoint_held where number not in (select number from checkpoint_pausing);
