-- Removes redundant records: those that a live source, or a file, repeats only to confirm that they still hold. Records of
-- different files stay apart, because each import can be taken back.
-- A row of claim is repeated when another differs in its evidence only; the newest is kept.
delete from claim
where rowid in (
    select rowid
    from claim
    qualify row_number() over (
        partition by
            cluster, scheduler, kind, job_id, run_key, pod_uid, pod, namespace, node, gpu_type, profile, device_count,
            device_indexes, gpus, submit_us, start_us, end_us, state, user_name, account, queue, qos, name, labels,
            suspended_us, fraction, cpu_milli, memory_bytes, node_rule, file_id
        order by evidence_us desc nulls last, rowid desc
    ) > 1
);

-- Of repeated records of a waiting request, the first and the last are kept.
delete from pending
where rowid in (
    select rowid
    from pending
    window asked as (
        partition by
            cluster, scheduler, job_id, submit_us, start_us, device_count, profile, gpu_type, node_count, user_name,
            account, namespace, queue, reason, cpu_milli, memory_bytes, file_id
        order by evidence_us nulls first, rowid
    )
    qualify lag(rowid) over asked is not null and lead(rowid) over asked is not null
);

-- Of repeated records of an unchanged node, the first and the last are kept.
delete from node
where rowid in (
    with versions as (
        select
            rowid as number,
            file_id,
            cluster,
            scheduler,
            node,
            observed_us,
            row(
                state, since_us, reason, gpu_model, devices, sharing, replicas, mig_strategy, pool, labels, created_us, taints,
                cpu_milli, memory_bytes
            ) as content
        from node
        where observed_us is not null
    )
    select number
    from versions
    window
        history as (partition by cluster, scheduler, node order by observed_us, number),
        own as (partition by file_id, cluster, scheduler, node order by observed_us, number)
    qualify content = lag(content) over history and content = lead(content) over history
        and content = lag(content) over own and content = lead(content) over own
);

-- The same for unchanged queues, workloads and reservations.
delete from queue
where rowid in (
    with versions as (
        select
            rowid as number,
            file_id,
            cluster,
            scheduler,
            kind,
            namespace,
            name,
            flavor,
            -- A user's share is reported per queue, so the queue is part of the name.
            case when kind in ('user', 'group') then parent end as place,
            observed_us,
            row(
                parent, state, priority, weight, quota, quota_max, lend_max, used, borrowed, pending_count,
                running_count, preemption, detail
            ) as content
        from queue
        where observed_us is not null
    )
    select number
    from versions
    window
        history as (
            partition by cluster, scheduler, kind, namespace, name, flavor, place order by observed_us, number
        ),
        own as (
            partition by file_id, cluster, scheduler, kind, namespace, name, flavor, place order by observed_us, number
        )
    qualify content = lag(content) over history and content = lead(content) over history
        and content = lag(content) over own and content = lead(content) over own
);

delete from workload
where rowid in (
    with versions as (
        select
            rowid as number,
            file_id,
            cluster,
            scheduler,
            kind,
            uid,
            observed_us,
            row(
                name, namespace, job_id, queue, cluster_queue, priority_class, priority, pod_count, min_count,
                device_count, profile, gpu_type, submit_us, reserved_us, admitted_us, start_us, evicted_us, end_us,
                evictions, preemptions, state, reason, message, user_name, placement, labels, detail
            ) as content
        from workload
        where observed_us is not null
    )
    select number
    from versions
    window
        history as (partition by cluster, scheduler, kind, uid order by observed_us, number),
        own as (partition by file_id, cluster, scheduler, kind, uid order by observed_us, number)
    qualify content = lag(content) over history and content = lead(content) over history
        and content = lag(content) over own and content = lead(content) over own
);

delete from reservation
where rowid in (
    with versions as (
        select
            rowid as number,
            file_id,
            cluster,
            scheduler,
            name,
            -- A reservation that returns every day has one name and several times.
            start_us,
            observed_us,
            row(end_us, nodes, device_count, gpu_type, accounts, users, queue, state, flags) as content
        from reservation
        where observed_us is not null
    )
    select number
    from versions
    window
        history as (partition by cluster, scheduler, name, start_us order by observed_us, number),
        own as (partition by file_id, cluster, scheduler, name, start_us order by observed_us, number)
    qualify content = lag(content) over history and content = lead(content) over history
        and content = lag(content) over own and content = lead(content) over own
);
