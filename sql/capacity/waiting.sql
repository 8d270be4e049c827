-- A row is a span in which a request waited by its own word, or by that of its queue, and the reason of the word that ends
-- the span. The first record of a request covers its wait since submission; later ones since the record before, if that
-- is not older than $fresh_us.
with request_record as (
    select
        scheduler,
        job_id,
        false as queued,
        queue,
        submit_us,
        evidence_us as told_us,
        start_us is null as waits,
        reason,
        null::varchar as message,
        node_count as members,
        device_count,
        profile,
        gpu_type
    from pending
    where cluster = $cluster and job_id is not null and evidence_us >= $from_us - $fresh_us
        and (submit_us is null or submit_us < $until_us)
    union all
    select
        scheduler,
        job_id,
        true,
        coalesce(cluster_queue, queue),
        submit_us,
        observed_us,
        coalesce(state in ('pending', 'inadmissible', 'evicted'), false),
        coalesce(nullif(detail::json ->> '$.waits.reason', 'Pending'), reason),
        coalesce(detail::json ->> '$.waits.message', message),
        pod_count,
        device_count,
        profile,
        gpu_type
    from workload
    where cluster = $cluster and job_id is not null and observed_us >= $from_us - $fresh_us
        and (submit_us is null or submit_us < $until_us)
),
turn as (
    select
        *,
        lag(told_us) over words as before_us,
        lag(waits) over words as waited
    from (select distinct * from request_record)
    window words as (partition by scheduler, job_id, queued, profile order by told_us, waits)
)
select
    scheduler,
    job_id,
    queued,
    queue,
    coalesce(submit_us, told_us) as submit_us,
    case
        when before_us is null then least(submit_us, told_us)
        when waited and told_us - before_us <= $fresh_us then before_us
        else told_us
    end as start_us,
    told_us as end_us,
    reason,
    message,
    greatest(coalesce(members, 1), 1) as members,
    device_count,
    profile,
    gpu_type
from turn
where waits and device_count > 0 and told_us > $from_us
    and coalesce(before_us, submit_us, told_us) < $until_us
order by device_count desc, submit_us, job_id, told_us
limit $limit;
