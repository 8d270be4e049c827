-- Removes records that say nothing beside others: what a live source repeats to tell that it still holds.
-- A row of claim is repeated when another differs in its evidence only; the newest is kept.
delete from claim
where rowid in (
    select rowid
    from claim
    qualify row_number() over (
        partition by
            cluster, scheduler, kind, job_id, run_key, pod_uid, pod, namespace, node, gpu_type, profile, device_count,
            device_indexes, gpus, submit_us, start_us, end_us, state, user_name, account, queue, qos, name, labels,
            suspended_us, fraction
        order by evidence_us desc nulls last, rowid desc
    ) > 1
);

-- Of a request that waits, the first and the last word are kept.
delete from pending
where rowid in (
    select rowid
    from pending
    window asked as (
        partition by
            cluster, scheduler, job_id, submit_us, start_us, device_count, profile, gpu_type, node_count, user_name,
            account, namespace, queue, reason
        order by evidence_us nulls first, rowid
    )
    qualify lag(rowid) over asked is not null and lead(rowid) over asked is not null
);

-- Of a node that stays as it is, the first and the last word are kept.
delete from node
where rowid in (
    with told as (
        select
            rowid as number,
            cluster,
            scheduler,
            node,
            observed_us,
            row(
                state, since_us, reason, gpu_model, devices, sharing, replicas, mig_strategy, pool, labels
            ) as content
        from node
        where observed_us is not null
    )
    select number
    from told
    window spoken as (partition by cluster, scheduler, node order by observed_us, number)
    qualify content = lag(content) over spoken and content = lead(content) over spoken
);
