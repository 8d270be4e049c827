-- A row of failed_span is a span in which a failed attempt of a job held a device, and whose work is lost: all of it without
-- checkpoints, else half of the interval between two of them.
-- An attempt is one run, or the pods of a gang that ended together. Unknown end states are no failures. A pod whose container never
-- started, or failed again and again since the pod was bound, has lost all of its time.
create or replace temp table failed_span as
with failure as (
    select *
    from (
        values
            ('FAILED', 'failed'), ('ERROR', 'failed'),
            ('NODE_FAIL', 'node failure'), ('BOOT_FAIL', 'node failure'), ('NODELOST', 'node failure'),
            ('TIMEOUT', 'time limit'), ('DEADLINE', 'time limit'), ('DEADLINEEXCEEDED', 'time limit'),
            ('OUT_OF_MEMORY', 'out of memory'), ('OOMKILLED', 'out of memory'),
            ('EVICTED', 'evicted by the node')
    ) as f (state, reason)
),
suspect as (
    select distinct scheduler, job_id, run_key
    from claim
    where cluster = $cluster and end_us is not null and upper(state) in (select state from failure)
        and job_id in (select job_id from job_chain)
),
-- The last record of each pod, or of each node of an allocation.
part as (
    select
        scheduler,
        job_id,
        run_key,
        coalesce(pod_uid, node, '') as unit,
        any_value(node) as node,
        min(start_us) as start_us,
        max(end_us) as end_us,
        upper(arg_max(state, (coalesce(evidence_us, end_us, start_us), end_us is not null))) as state
    from claim
    join suspect using (scheduler, job_id, run_key)
    where cluster = $cluster and start_us is not null
    group by scheduler, job_id, run_key, coalesce(pod_uid, node, '')
),
-- Runs whose end is unexceptional: services answered requests until then, and a session ends with its time limit.
known_run as (
    select
        r.run_id,
        r.scheduler,
        r.job_id,
        r.run_key,
        r.name,
        r.user_name,
        r.end_us,
        c.chain,
        try_cast(r.labels ->> '$."gpuwatch.io/checkpoint-minutes"' as double) as checkpoint_minutes,
        lower(coalesce(r.labels ->> '$."gpuwatch.io/workload-class"', r.labels ->> '$."workload-class"', '')) as class,
        is_session(r.labels, r.queue, r.name) as is_session
    from run r
    join job_chain c using (run_id)
    where r.cluster = $cluster and r.ended and not c.exempt and not c.latency_critical
        and class not in ('inference', 'serving', 'latency-critical')
        and not coalesce(
            json_exists(r.labels, '$."serving.kserve.io/inferenceservice"')
            or json_exists(r.labels, '$."ray.io/serve"')
            -- Pods of a Deployment or a StatefulSet.
            or json_exists(r.labels, '$."pod-template-hash"')
            or json_exists(r.labels, '$."statefulset.kubernetes.io/pod-name"'),
            false
        )
),
failed_part as (
    select k.run_id, k.chain, p.unit, p.node, p.start_us, p.end_us, f.reason
    from part p
    join failure f using (state)
    join known_run k using (scheduler, job_id, run_key)
    where p.end_us > p.start_us and not (k.is_session and f.reason = 'time limit')
),
-- With one member of a gang the others lose their work, unless they completed it.
-- The records of each pod that names a reason for which none of its containers with GPUs ran.
blocked_pod as (
    select
        scheduler,
        job_id,
        run_key,
        pod_uid,
        any_value(node) as node,
        min(start_us) as start_us,
        max(end_us) as end_us,
        arg_max(labels, (coalesce(evidence_us, end_us, start_us), end_us is not null)) as labels,
        list({
            'at_us': coalesce(evidence_us, end_us, start_us),
            'restarts': try_cast(labels ->> '$."gpuwatch.io/restarts"' as bigint)
        }) filter (where failed_again(labels)) as failures,
        bool_and(never_started(state)) as never_ran,
        any_value(state = 'ImagePullBackOff') as no_image
    from claim
    where cluster = $cluster and scheduler = 'kubernetes' and start_us is not null and pod_uid in (
            select pod_uid
            from claim
            where cluster = $cluster and (never_started(state) or failed_again(labels))
        )
    group by scheduler, job_id, run_key, pod_uid
),
-- The kubelet waits up to five minutes before it starts a container again, and forgets that wait after ten minutes of running. A loop
-- that began after good work counts from the first record since which the container was started that often.
blocked_run as (
    select
        r.run_id,
        c.chain,
        p.* exclude (run_key, end_us),
        coalesce(p.end_us, r.end_us) as end_us,
        try_cast(p.labels ->> '$."gpuwatch.io/restarts"' as bigint) as restarts
    from blocked_pod p
    join run r
        on r.cluster = $cluster and r.scheduler = p.scheduler and r.job_id = p.job_id and r.run_key = p.run_key
    join job_chain c using (run_id)
    where not c.exempt
),
blocked_since as (
    select
        *,
        case
            when never_ran or end_us - start_us <= $restart_us * (1 + restarts) then start_us
            else list_min(list_transform(
                list_filter(
                    failures,
                    lambda f: f.at_us > start_us and restarts - f.restarts >= $loop_restarts_min
                        and end_us - f.at_us <= $restart_us * (restarts - f.restarts)
                ),
                lambda f: f.at_us
            ))
        end as since_us
    from blocked_run
),
blocked_part as (
    select
        r.run_id,
        r.chain,
        r.pod_uid as unit,
        r.node,
        r.since_us as start_us,
        r.end_us,
        case
            when r.never_ran and r.no_image then 'image not pulled'
            when r.never_ran then 'container not created'
            else 'crash loop'
        end as reason
    from blocked_since r
    where r.since_us is not null
        -- GPUs that are seen to idle are a matter of idle-hoarding, which has the reason too.
        and not exists (
            select 1
            from ledger_hour l
            where l.cluster = $cluster and l.run_id = r.run_id and l.hour_us >= r.since_us - 3600000000
            having sum(l.hoarded_us) * 2 >= sum(
                l.unobserved_us + l.hoarded_us + l.gap_us + l.communication_us + l.stalled_us + l.below_roof_us + l.memory_roof_us
                + l.compute_us
            )
        )
),
dead_part as (
    select run_id, unit, node, start_us, end_us, reason
    from failed_part
    union all
    select run_id, unit, node, start_us, end_us, reason
    from blocked_part
    where (run_id, unit) not in (select (run_id, unit) from failed_part)
    union all
    select
        k.run_id,
        p.unit,
        any_value(p.node),
        any_value(p.start_us),
        max(least(p.end_us, f.end_us)),
        arg_min(f.reason, (f.end_us, f.reason))
    from part p
    join known_run k using (scheduler, job_id, run_key)
    join failed_part f
        on f.run_id = k.run_id and f.unit <> p.unit and p.start_us < f.end_us
        and coalesce(p.end_us, k.end_us) between f.end_us - $together_us and f.end_us + $together_us
    where p.state not in (select state from failure) and p.state not in ('SUCCEEDED', 'COMPLETED', 'FINISHED', 'PASS')
    group by k.run_id, p.unit
),
alive_part as (
    select k.run_id, p.node, p.start_us, coalesce(p.end_us, k.end_us) as end_us
    from part p
    join known_run k using (scheduler, job_id, run_key)
    where (k.run_id, p.unit) not in (select (run_id, unit) from dead_part)
    union all
    select r.run_id, c.node, c.start_us, coalesce(c.end_us, r.end_us)
    from claim c
    join run r
        on r.cluster = $cluster and r.scheduler = c.scheduler and r.job_id = c.job_id and r.run_key = c.run_key
    where c.cluster = $cluster and r.run_id in (select run_id from blocked_part)
        and (r.run_id, coalesce(c.pod_uid, c.node, '')) not in (select (run_id, unit) from dead_part)
),
-- Detected pauses of a job are evidence of checkpoints, as its label is.
paused as (
    select subject_id as job_id, max(list_extract(element_at(numbers, 'period_minutes'), 1)) as minutes
    from verdict
    where cluster = $cluster and detector = 'checkpoint-stall' and subject_kind = 'job'
    group by subject_id
),
held_span as (
    select
        s.run_id,
        s.device_id,
        s.share_num,
        s.share_den,
        s.profile,
        greatest(s.start_us, min(p.start_us)) as start_us,
        least(s.end_us, max(p.end_us)) as end_us,
        max(p.end_us) as failed_us,
        arg_min(p.reason, (-p.end_us, p.reason)) as reason
    from segment s
    join device d on d.device_id = s.device_id and d.cluster = s.cluster
    join dead_part p on p.run_id = s.run_id and p.start_us < s.end_us and p.end_us > s.start_us
    where s.cluster = $cluster
        -- Where a pod of the run that did not fail has the same node, its devices cannot be told apart from those of the failed.
        and (
            (s.run_id not in (select run_id from alive_part))
            or (
                d.node = p.node
                and not exists (
                    select 1
                    from alive_part a
                    where a.run_id = s.run_id and a.node = d.node and a.start_us < s.end_us and a.end_us > s.start_us
                )
            )
        )
    group by s.run_id, s.device_id, s.share_num, s.share_den, s.profile, s.start_us, s.end_us
),
saved as (
    select
        k.run_id,
        k.chain,
        k.user_name,
        k.name,
        coalesce(case when k.checkpoint_minutes > 0 then k.checkpoint_minutes end, p.minutes) as checkpoint_minutes
    from known_run k
    left join paused p using (job_id)
    union all
    select distinct b.run_id, b.chain, null::varchar, null::varchar, null::double
    from blocked_part b
    where b.run_id not in (select run_id from known_run)
)
select
    h.*,
    k.chain,
    k.checkpoint_minutes,
    case
        when h.reason in ('image not pulled', 'container not created', 'crash loop') then h.start_us
        else greatest(h.start_us, coalesce(h.failed_us - round(k.checkpoint_minutes * 30e6)::bigint, h.start_us))
    end as lost_from_us,
    -- A run of the same name and user that begins soon after a time limit may go on where this one stopped.
    h.reason = 'time limit' and exists (
        select 1
        from run n
        where n.cluster = $cluster and n.run_id <> h.run_id and n.name = k.name and n.user_name = k.user_name
            and n.start_us between h.failed_us - $together_us and h.failed_us + $successor_us
    ) as has_successor
from held_span h
join saved k using (run_id)
where h.end_us > h.start_us;
