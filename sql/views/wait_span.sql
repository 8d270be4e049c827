-- A row of last_report is a kind of source and its last record of any request: older requests were valid until then.
create or replace temp table last_report as
select scheduler = 'slurm' as slurm, max(at_us) as last_us
from (
    select scheduler, max(evidence_us) as at_us from claim where cluster = $cluster group by scheduler
    union all
    select scheduler, max(observed_us) from workload where cluster = $cluster group by scheduler
    union all
    select scheduler, max(observed_us) from queue where cluster = $cluster group by scheduler
)
group by all;

-- A row of wait_span is a gang or job that waits in a queue: since when, until when that is known, how much it wants, and
-- in what state (waiting for quota or for nodes). Kueue's ClusterQueue is that of its LocalQueue.
create or replace temp table wait_span as
with record as (
    select
        scheduler,
        coalesce(job_id, uid) as job,
        namespace,
        queue,
        cluster_queue,
        priority,
        priority_class,
        device_count,
        profile,
        state,
        observed_us,
        lead(observed_us) over (partition by scheduler, kind, uid order by observed_us, rowid) as next_us,
        greatest(submit_us, evicted_us) as since_us,
        coalesce(detail ->> '$.waits.reason', reason, '') as word,
        coalesce(detail ->> '$.waits.message', message, '') as message_text,
        coalesce((detail ->> '$.active') = 'false', false) as off
    from workload
    where cluster = $cluster and scheduler in ('kueue', 'volcano', 'yunikorn', 'slurm') and kind <> 'PendingWorkload'
        and observed_us >= $from_us - $fresh_us and observed_us < $until_us
        and not coalesce(contains(profile, '/'), false) -- other accelerators and shares of GPUs
),
local_queue as (
    select namespace, name, parent
    from queue
    where cluster = $cluster and scheduler = 'kueue' and kind = 'local_queue' and flavor is null
    qualify row_number() over (partition by namespace, name order by observed_us desc nulls last, rowid desc) = 1
)
select
    t.scheduler,
    t.job,
    coalesce(l.parent, t.cluster_queue, t.queue) as queue,
    max(t.priority) as priority,
    arg_max(t.priority_class, (t.observed_us, t.priority_class)) as priority_class,
    max(t.device_count) as devices,
    coalesce(arg_max(t.profile, (t.observed_us, t.profile)), '') as profile,
    since_us as start_us,
    max(least(
        coalesce(t.next_us, 9223372036854775807), t.observed_us + $fresh_us, p.last_us
    )) as end_us
from record t
join last_report p on p.slurm = (t.scheduler = 'slurm')
left join local_queue l on t.scheduler = 'kueue' and l.namespace is not distinct from t.namespace and l.name = t.queue
where t.since_us is not null and t.device_count > 0 and not t.off
    and case t.scheduler
        -- Before 0.14 Kueue gave no reason, so the message is read. A request that waits for displaced workloads to end is served.
        -- The message may name what lacks: CPUs are no GPUs, whose names have a slash.
        when 'kueue' then t.state in ('pending', 'evicted')
            and (
                t.word = 'WaitingForQuota'
                or (t.word in ('', 'Pending') and regexp_matches(t.message_text, '(?i)insufficient unused quota|borrowing limit'))
            )
            and (
                not regexp_matches(t.message_text, '(?i)(quota|cohort|borrowing limit) for [a-z]')
                or regexp_matches(t.message_text, '(?i)(quota|cohort|borrowing limit) for [a-z0-9.-]+/')
            )
        when 'volcano' then t.state in ('pending', 'reserved') and t.word = 'NotEnoughResources'
        when 'yunikorn' then t.state = 'pending' and t.word = 'Accepted'
        else t.state = 'pending' and t.word in ('Resources', 'Priority')
    end
group by t.scheduler, t.job, coalesce(l.parent, t.cluster_queue, t.queue), since_us;
