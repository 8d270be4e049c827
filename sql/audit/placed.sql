-- A row of audit_placed is a run within the window and who placed it. authority: 'inner' ran inside another run, 'not told' was
-- only seen on labels of samples. gate: who decides before the binder when it may start, NULL nobody that is known.
create or replace temp table audit_placed as
with managed as (
    select distinct cluster, namespace
    from queue
    where scheduler = 'kueue' and kind = 'local_queue' and state is distinct from 'deleted'
),
queued_job as (
    select distinct cluster, scheduler, job_id
    from workload
    where scheduler in ('kueue', 'volcano', 'yunikorn') and job_id is not null
),
run_in as (
    select
        r.*,
        labels ->> '$."gpuwatch.io/scheduler-name"' as binder,
        coalesce(contains(labels, 'kueue.x-k8s.io/'), false) as has_kueue_label,
        exists (from queued_job q where q.cluster = r.cluster and q.job_id = r.job_id and q.scheduler = 'kueue') as in_kueue,
        exists (from queued_job q where q.cluster = r.cluster and q.job_id = r.job_id and q.scheduler = 'volcano') as in_volcano,
        exists (from queued_job q where q.cluster = r.cluster and q.job_id = r.job_id and q.scheduler = 'yunikorn') as in_yunikorn,
        exists (from managed m where m.cluster = r.cluster and m.namespace = r.namespace) as in_managed
    from run r
    where start_us < $until_us and end_us > $since_us
)
select
    run_id,
    cluster,
    scheduler,
    job_id,
    run_key,
    labels,
    case
        when own is not null then 'inner'
        when not declared then 'not told'
        when scheduler <> 'kubernetes' then scheduler
        when binder is not null then binder
        when labels ->> '$."gpuwatch.io/bound-by"' = 'owner' then 'pods that name their node'
        when in_yunikorn then 'yunikorn'
        when in_managed and not (queue is not null or has_kueue_label or in_kueue) then 'pods past the queue'
        else 'kube-scheduler'
    end as authority,
    case
        when scheduler <> 'kubernetes' or own is not null then null
        when has_kueue_label or in_kueue then 'kueue'
        when in_volcano and binder is distinct from 'volcano' then 'volcano'
    end as gate
from run_in;

-- A row of audit_used is what one authority placed on one node of a pool in the window: GPU-microseconds (share-weighted).
create or replace temp table audit_used as
select
    s.cluster,
    coalesce(d.pool, d.model, 'unknown') as pool,
    d.node,
    p.authority,
    p.gate,
    sum((least(s.end_us, $until_us) - greatest(s.start_us, $since_us))::double * s.share_num / s.share_den) as gpu_us
from segment s
join audit_placed p using (run_id)
join device d on d.device_id = s.device_id and d.cluster = s.cluster
where s.start_us < $until_us and s.end_us > $since_us
group by all;
