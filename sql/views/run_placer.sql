-- A row of run_placer is a run and who placed it: of one cluster, of all where $cluster is NULL. Kueue and Volcano that gate,
-- and the default scheduler that binds, are one authority; 'inner' ran inside of another run and was placed by that one's.
-- gate: what decides before the binder when it may start, NULL if unknown. gated: it passed some queue.
create or replace temp table run_placer as
with managed as (
    select distinct cluster, namespace
    from queue
    where scheduler = 'kueue' and kind = 'local_queue' and state is distinct from 'deleted' and namespace is not null
),
queued_job as (
    select
        cluster,
        job_id,
        bool_or(scheduler = 'kueue') as in_kueue,
        bool_or(scheduler = 'volcano') as in_volcano,
        bool_or(scheduler = 'yunikorn') as in_yunikorn
    from workload
    where scheduler in ('kueue', 'volcano', 'yunikorn') and job_id is not null
    group by cluster, job_id
),
run_in as (
    select
        r.*,
        r.labels ->> '$."gpuwatch.io/scheduler-name"' as binder,
        coalesce(contains(r.labels, 'kueue.x-k8s.io/'), false) or coalesce(q.in_kueue, false) as asks_kueue,
        coalesce(q.in_volcano, false) as in_volcano,
        coalesce(q.in_yunikorn, false) as in_yunikorn,
        m.namespace is not null as in_managed
    from run r
    left join queued_job q on q.cluster = r.cluster and q.job_id = r.job_id
    left join managed m on m.cluster = r.cluster and m.namespace = r.namespace
    where coalesce(r.cluster = $cluster, true) and r.start_us < $until_us and r.end_us > $since_us
)
select
    run_id,
    cluster,
    scheduler,
    job_id,
    run_key,
    namespace,
    labels,
    state,
    start_us,
    end_us,
    declared,
    queue is not null or asks_kueue or in_volcano or in_yunikorn as gated,
    case
        when own is not null then 'inner'
        when scheduler <> 'kubernetes' then scheduler
        when binder is not null then binder
        when (labels ->> '$."gpuwatch.io/bound-by"') = 'owner' then 'pods that name their node'
        when in_yunikorn then 'yunikorn'
        when in_managed and not gated then 'pods past the queue'
        else 'kubernetes'
    end as authority,
    case
        when scheduler <> 'kubernetes' or own is not null then null
        when asks_kueue then 'kueue'
        when in_volcano and binder is distinct from 'volcano' then 'volcano'
    end as gate
from run_in;
