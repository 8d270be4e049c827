-- A row of spoken is a kind of source and its last word on anything: what it says no more of stood until then.
create or replace temp table spoken as
select scheduler = 'slurm' as slurm, max(at_us) as last_us
from (
    select scheduler, max(evidence_us) as at_us from claim where cluster = $cluster group by scheduler
    union all
    select scheduler, max(observed_us) from workload where cluster = $cluster group by scheduler
    union all
    select scheduler, max(observed_us) from queue where cluster = $cluster group by scheduler
)
group by all;

-- A row of queue_span is a queue, a flavor of it where it has some, a kind of device (profile, '' whole GPUs) and a span in
-- which its numbers stood as told. A word stands until the next one, at most $fresh_us; the first one after a silence is
-- taken to have held for $unseen_us before, as nobody said otherwise.
create or replace temp table queue_span as
with recursive cohort as (
    select name, parent
    from queue
    where cluster = $cluster and scheduler = 'kueue' and kind = 'cohort' and parent is not null
    qualify row_number() over (partition by name order by observed_us desc nulls last, rowid desc) = 1
),
above as (
    select name, parent as root, 1 as depth from cohort
    union all
    select a.name, c.parent, a.depth + 1
    from above a
    join cohort c on c.name = a.root
    where a.depth < 32
),
root as (
    select name, arg_max(root, depth) as root from above group by name
),
told as (
    select
        scheduler,
        kind,
        name,
        coalesce(flavor, '') as flavor,
        parent,
        state,
        observed_us,
        quota,
        used,
        borrowed,
        rowid as number
    from queue
    where cluster = $cluster and kind in ('cluster_queue', 'queue') and scheduler in ('kueue', 'volcano', 'yunikorn')
        -- Kueue tells of each flavor, and of all of them together.
        and (scheduler <> 'kueue' or flavor is not null)
        and observed_us >= $from_us - $fresh_us and observed_us < $until_us
),
-- The rules of a ClusterQueue stand in its row of all flavors.
rule as (
    select scheduler, name, preemption
    from queue
    where cluster = $cluster and kind in ('cluster_queue', 'queue') and flavor is null and observed_us < $until_us
    qualify row_number() over (partition by scheduler, name order by observed_us desc, rowid desc) = 1
),
turn as (
    select
        *,
        lag(observed_us) over words as before_us,
        lead(observed_us) over words as next_us
    from (
        select *
        from told
        qualify row_number() over (partition by scheduler, name, flavor, observed_us order by number desc) = 1
    )
    window words as (partition by scheduler, name, flavor order by observed_us)
),
kind_of as (
    select
        *,
        unnest(map_keys(from_json(quota, '"MAP(VARCHAR,BIGINT)"'))) as profile
    from turn
    where quota is not null and used is not null and state is distinct from 'deleted'
)
select
    k.scheduler,
    k.name as queue,
    k.flavor,
    k.profile,
    case when k.scheduler = 'kueue' then coalesce(o.root, k.parent, 'queue ' || k.name) else k.scheduler end as root,
    coalesce(k.state, '') as state,
    r.preemption,
    from_json(k.quota, '"MAP(VARCHAR,BIGINT)"')[k.profile] as quota,
    coalesce(from_json(k.used, '"MAP(VARCHAR,BIGINT)"')[k.profile], 0) as used,
    coalesce(from_json(k.borrowed, '"MAP(VARCHAR,BIGINT)"')[k.profile], 0) as borrowed,
    case
        when k.before_us is null or k.observed_us - k.before_us > $fresh_us then k.observed_us - $unseen_us
        else k.observed_us
    end as start_us,
    least(
        coalesce(k.next_us, 9223372036854775807), k.observed_us + $fresh_us, p.last_us
    ) as end_us
from kind_of k
join spoken p on p.slurm = (k.scheduler = 'slurm')
left join rule r on r.scheduler = k.scheduler and r.name = k.name
left join root o on o.name = k.parent;

-- A row of wait_span is a gang or job that waits in a queue: since when, until when that is known, how much it wants, and
-- in what state (waiting for quota or for nodes). Kueue's ClusterQueue is that of its LocalQueue.
create or replace temp table wait_span as
with told as (
    select
        w.*,
        lead(observed_us) over (partition by scheduler, kind, uid order by observed_us, rowid) as next_us,
        greatest(submit_us, evicted_us) as since_us,
        coalesce(detail ->> '$.waits.reason', reason, '') as word,
        coalesce(detail ->> '$.waits.message', message, '') as said
    from workload w
    where cluster = $cluster and scheduler in ('kueue', 'volcano', 'yunikorn', 'slurm') and kind <> 'PendingWorkload'
        and observed_us >= $from_us - $fresh_us and observed_us < $until_us
),
local_queue as (
    select namespace, name, parent
    from queue
    where cluster = $cluster and scheduler = 'kueue' and kind = 'local_queue' and flavor is null
    qualify row_number() over (partition by namespace, name order by observed_us desc nulls last, rowid desc) = 1
)
select
    t.scheduler,
    coalesce(t.job_id, t.uid) as job,
    coalesce(l.parent, t.cluster_queue, t.queue) as queue,
    max(t.priority) as priority,
    arg_max(t.priority_class, t.observed_us) as priority_class,
    max(t.device_count) as devices,
    coalesce(arg_max(t.profile, t.observed_us), '') as profile,
    arg_max(t.gpu_type, t.observed_us) as gpu_type,
    arg_max(t.word, t.observed_us) as word,
    since_us as start_us,
    max(least(
        coalesce(t.next_us, 9223372036854775807), t.observed_us + $fresh_us, p.last_us
    )) as end_us
from told t
join spoken p on p.slurm = (t.scheduler = 'slurm')
left join local_queue l on t.scheduler = 'kueue' and l.namespace is not distinct from t.namespace and l.name = t.queue
where t.since_us is not null and t.device_count > 0
    and case t.scheduler
        -- Before 0.14 Kueue gave no reason of its own: the message tells. What waits for displaced ones to go has been helped.
        when 'kueue' then t.state in ('pending', 'evicted') and (
            t.word = 'WaitingForQuota'
            or (t.word in ('', 'Pending') and regexp_matches(t.said, '(?i)insufficient unused quota|borrowing limit'))
        )
        when 'volcano' then t.state in ('pending', 'reserved') and t.word = 'NotEnoughResources'
        when 'yunikorn' then t.state = 'pending' and t.word = 'Accepted'
        else t.state = 'pending' and t.word in ('Resources', 'Priority')
    end
group by t.scheduler, coalesce(t.job_id, t.uid), coalesce(l.parent, t.cluster_queue, t.queue), since_us;
