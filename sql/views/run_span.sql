-- A row of run_span is a gang or job that runs in a queue, with its priority: since when, until when that is known. Reads
-- `last_report` of wait_span.sql.
create or replace temp table run_span as
select
    scheduler,
    coalesce(job_id, uid) as job,
    coalesce(cluster_queue, queue) as queue,
    max(priority) as priority,
    arg_max(priority_class, (observed_us, priority_class)) as priority_class,
    max(device_count) as devices,
    coalesce(arg_max(profile, (observed_us, profile)), '') as profile,
    coalesce(start_us, admitted_us) as start_us,
    max(least(
        coalesce(next_us, 9223372036854775807), observed_us + $fresh_us, last_us
    )) as end_us
from (
    select
        scheduler,
        job_id,
        uid,
        cluster_queue,
        queue,
        priority,
        priority_class,
        device_count,
        profile,
        start_us,
        admitted_us,
        state,
        observed_us,
        lead(observed_us) over (partition by scheduler, kind, uid order by observed_us, rowid) as next_us
    from workload
    where cluster = $cluster and scheduler in ('kueue', 'slurm') and kind <> 'PendingWorkload'
        and observed_us >= $from_us - $fresh_us and observed_us < $until_us
)
join last_report on slurm = (scheduler = 'slurm')
where state in ('admitted', 'running') and device_count > 0
group by all;
