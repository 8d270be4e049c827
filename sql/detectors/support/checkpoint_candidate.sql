-- A row of checkpoint_candidate is a chain, numbered, whose devices, by the ledger, pause in some of the evaluated hours and work in some,
-- or that was found to stop at regular times in the day before.
create or replace temp table checkpoint_candidate as
with active as (
    select device_id, run_id
    from ledger_hour
    where cluster = $cluster and hour_us >= $since_us and hour_us < $until_us and run_id is not null
    group by device_id, run_id
    -- The ledger counts a pause of 15 minutes and more as hoarded.
    having max(gap_us + hoarded_us) > $gap_us_min and sum(memory_roof_us + compute_us + below_roof_us) > 0
),
chosen as (
    select h.chain
    from held h
    join job_chain c using (run_id)
    join active a on a.device_id = h.device_id and a.run_id = h.run_id
    where h.sure and not c.exempt and h.start_us < $until_us and h.end_us > $since_us
    union
    select c.chain
    from verdict v
    join job_chain c on c.job_id = v.subject_id and c.chain_start_us = v.cause_us
    where v.cluster = $cluster and v.detector = 'checkpoint-stall' and v.subject_kind = 'job'
        and v.hour_us >= $from_us and v.hour_us < $until_us
),
-- Slurm stops jobs in turn, or for others. Of the suspended time only the total is known: where it may be most of what a run paused,
-- or is not known, the pauses may be the scheduler's.
halted as (
    select
        c.chain,
        c.run_id,
        max(k.suspended_us) as suspended_us,
        bool_or(k.state = 'SUSPENDED' and coalesce(k.suspended_us, 0) = 0) as unknown
    from job_chain c
    join run r on r.run_id = c.run_id and r.cluster = $cluster
    join claim k
        on k.cluster = $cluster and k.scheduler = 'slurm' and k.job_id = r.job_id and k.run_key = r.run_key
        and (k.suspended_us > 0 or k.state = 'SUSPENDED')
    where c.chain in (select chain from chosen) and c.scheduler = 'slurm'
    group by c.chain, c.run_id
),
stopped as (
    select h.chain
    from halted h
    left join (
        select run_id, max(paused_us) as paused_us
        from (
            select run_id, device_id, sum(gap_us + hoarded_us) as paused_us
            from ledger_hour
            where cluster = $cluster and run_id in (select run_id from halted)
            group by run_id, device_id
        )
        group by run_id
    ) p using (run_id)
    where h.unknown or 2 * h.suspended_us > coalesce(p.paused_us, 0)
)
select chain, row_number() over (order by chain) as number
from chosen
where chain not in (select chain from stopped);

-- A row of checkpoint_held is a span of a device of a candidate, without the warm-up of its run: of at most $devices_max devices.
-- alone: it is the one span of its candidate.
create or replace temp table checkpoint_held as
select
    c.number,
    h.device_id,
    greatest(h.start_us, h.run_start_us + $warm_up_us) as start_us,
    h.end_us,
    count(*) over (partition by c.number) = 1 as alone
from held h
join checkpoint_candidate c using (chain)
where h.sure
qualify dense_rank() over (partition by c.number order by h.device_id) <= $devices_max
order by h.device_id, start_us;

-- A row of checkpoint_known is a candidate and an hour in which it was found to stop at regular times before.
create or replace temp table checkpoint_known as
select distinct c.number, v.hour_us
from verdict v
join job_chain j on j.job_id = v.subject_id and j.chain_start_us = v.cause_us
join checkpoint_candidate c on c.chain = j.chain
where v.cluster = $cluster and v.detector = 'checkpoint-stall' and v.subject_kind = 'job';
