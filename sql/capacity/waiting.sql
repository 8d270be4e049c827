-- A row is a span in which a request for GPUs waited by its own record, or by that of its queue: those for other accelerators and
-- for shares of GPUs (profiles with a slash) do not wait for them. Its reason is that of the record that
-- ends the span, or of the last one before the request started or was cancelled; for one of sacct, which names none, that of the
-- next record that does, or of the last, at most $fresh_us away and with no run between. The first record of a request covers its
-- wait since submission. A later one covers the time since the record before, however long ago that was; of a request
-- submitted later than that record, more than $fresh_us ago, only the time since its submission.
with request_record as (
    select
        scheduler,
        job_id,
        false as queued,
        queue,
        submit_us,
        evidence_us as told_us,
        start_us is null and reason is distinct from 'NoLongerWaits' as waits,
        false as ran,
        reason,
        null::varchar as message,
        node_rule,
        user_name,
        node_count as members,
        device_count,
        profile,
        gpu_type,
        cpu_milli,
        memory_bytes
    from pending
    where cluster = $cluster and job_id is not null and evidence_us >= $from_us - $fresh_us
        and (submit_us is null or submit_us < $until_us) and not coalesce(contains(profile, '/'), false)
    union all
    select
        scheduler,
        job_id,
        true,
        coalesce(cluster_queue, queue),
        submit_us,
        case when coalesce(state in ('pending', 'inadmissible', 'evicted'), false) then observed_us
            else least(observed_us, coalesce(admitted_us, start_us, end_us, observed_us)) end,
        coalesce(state in ('pending', 'inadmissible', 'evicted'), false),
        false,
        coalesce(nullif(detail::json ->> '$.waits.reason', 'Pending'), reason),
        coalesce(detail::json ->> '$.waits.message', message),
        null,
        user_name,
        pod_count,
        device_count,
        profile,
        gpu_type,
        null,
        null
    from workload
    where cluster = $cluster and job_id is not null and observed_us >= $from_us - $fresh_us
        and (submit_us is null or submit_us < $until_us) and not coalesce(contains(profile, '/'), false)
),
-- The runs of a Slurm job: it waits until the first starts, and again after one ended and it was queued again.
run_record as (
    select distinct
        c.scheduler,
        c.job_id,
        c.profile,
        unnest([c.start_us, c.end_us]) as told_us
    from claim c
    where c.cluster = $cluster and c.scheduler = 'slurm'
        and c.job_id in (select job_id from request_record where scheduler = 'slurm' and waits)
        and coalesce(c.end_us, c.start_us) >= $from_us - $fresh_us
),
record as (
    select distinct *
    from request_record
    union all by name
    select scheduler, job_id, false as queued, told_us, false as waits, true as ran, profile
    from run_record
    where told_us is not null
),
reasoned as (
    select
        * replace (
            coalesce(
                reason,
                case
                    when waits and scheduler = 'slurm' then coalesce(
                        first_value(case when waits then reason end ignore nulls) over (
                            requests order by told_us range between current row and $fresh_us following
                        ),
                        last_value(case when waits then reason end ignore nulls) over (
                            requests order by told_us range between $fresh_us preceding and current row
                        )
                    )
                end
            ) as reason
        ),
        reason is null as lacked
    from (
        select
            *,
            count(case when ran then 1 end) over (
                partition by scheduler, job_id, queued, profile order by told_us
            ) as wait
        from record
    )
    window requests as (partition by scheduler, job_id, queued, profile, wait)
),
-- Of two records of the same instant, the one with a reason comes first, which has more of a request: the other adds no span.
turn as (
    select
        *,
        lag(told_us) over records as before_us,
        lag(waits) over records as waited,
        lag(ran) over records as ran_before,
        lead(told_us) over records as next_us,
        lead(waits) over records as waits_on
    from reasoned
    window records as (
        partition by scheduler, job_id, queued, profile
        order by told_us, waits, lacked, reason, node_rule nulls last, cpu_milli nulls last, memory_bytes nulls last, members, gpu_type
    )
),
span as (
    select
        *,
        case
            when before_us is null then least(submit_us, told_us)
            when waited and told_us - before_us <= $fresh_us then before_us
            when waited or ran_before then least(greatest(before_us, coalesce(submit_us, told_us)), told_us)
            else told_us
        end as start_us,
        told_us as end_us
    from turn
    where waits
    union all by name
    select *, told_us as start_us, next_us as end_us
    from turn
    where waits and not waits_on
)
select
    scheduler,
    job_id,
    queued,
    queue,
    coalesce(submit_us, told_us) as submit_us,
    start_us,
    end_us,
    reason,
    message,
    node_rule,
    user_name,
    greatest(coalesce(members, 1), 1) as members,
    device_count,
    profile,
    gpu_type,
    cpu_milli,
    memory_bytes
from span
where device_count > 0 and end_us > $from_us
    and coalesce(start_us, submit_us, told_us) < $until_us
order by device_count desc, submit_us, job_id, end_us
limit $limit;
