-- A row of wanted is a run and a node (and pod) on which it held devices of one kind, all records of it merged. Where it held
-- shares of devices only (Slurm's shards, MPS), these are as many devices as have so many shares.
insert into wanted by name
with core_count as (
    select node, replicas from site where contains(devices, '"aws.amazon.com/neuron"') and replicas > 0
),
-- Nodes whose GPUs have several pods at once: one that asks for more replicas than the node has GPUs has some of the same GPU.
shared_node as (
    select node, from_json(devices, '"MAP(VARCHAR,BIGINT)"')[''] as devices
    from site
    where sharing in ('time-slicing', 'mps') and from_json(devices, '"MAP(VARCHAR,BIGINT)"')[''] > 0
),
-- Neuron cores are parts of the devices of their node, where it says how many a device has.
claimed as (
    select
        c.* replace (
            case
                when n.node is not null then 'aws.amazon.com/neuron'
                when one.pod_uid is not null and c.kind <> 'dra'
                    and (c.profile is null or c.profile in (select profile from single_profile where node = c.node))
                    then one.profile
                else c.profile
            end as profile,
            case
                when n.node is null then least(c.device_count, z.devices)
                else (c.device_count + n.replicas - 1) // n.replicas
            end as device_count,
            case when n.node is null then c.fraction else c.device_count / n.replicas end as fraction
        )
    from claim c
    left join shared_node z on z.node = c.node and c.scheduler = 'kubernetes' and c.profile is null and c.kind <> 'dra'
    left join core_count n on n.node = c.node and c.profile = 'aws.amazon.com/neuroncore'
    left join single_pod one on one.pod_uid = c.pod_uid and one.node = c.node and c.scheduler = 'kubernetes'
    where c.cluster = $cluster and c.rowid not in (select number from lone_claim)
),
typed as (
    select
        scheduler,
        kind,
        job_id,
        run_key,
        pod_uid,
        pod,
        namespace,
        node,
        profile,
        gpu_type,
        max(device_count) as device_count,
        max(coalesce(fraction, device_count)) as amount,
        max(
            case
                when scheduler = 'slurm'
                    then try_cast(json_extract_string(labels, '$."gpuwatch.io/shares"') as bigint)
            end
        ) as shares,
        max(device_indexes) as device_indexes,
        max(gpus) as gpus
    from claimed c
    -- A record without devices has the times of a pod whose ResourceClaim was released.
    where c.device_count > 0
        and not exists (
            select 1
            from doubled d
            where d.kind = c.kind and d.job_id = c.job_id and d.run_key = c.run_key
                and d.pod_uid is not distinct from c.pod_uid
        )
    group by all
),
by_kind as (
    select
        scheduler,
        kind,
        job_id,
        run_key,
        pod_uid,
        pod,
        namespace,
        node,
        profile,
        sum(device_count)::integer as device_count,
        sum(amount) as amount,
        sum(shares)::bigint as shares,
        string_agg(device_indexes, ',') as device_indexes,
        string_agg(gpus, ',') as gpus,
        max(gpu_type) as gpu_type
    from typed
    group by all
),
-- Two records of one run may cut it differently: totals (kind sacct) are spread evenly, and have not always the MIG
-- profile; scontrol lists each node of a running job. Devices are taken from one of them, preferably one that names devices.
preferred_kind as (
    select
        scheduler,
        job_id,
        run_key,
        pod_uid,
        kind
    from by_kind
    group by scheduler, job_id, run_key, pod_uid, kind
    qualify row_number() over (
        partition by scheduler, job_id, run_key, pod_uid
        order by
            bool_or(coalesce(device_indexes, gpus) is not null) desc,
            kind = 'scontrol' desc,
            sum(device_count) desc,
            kind
    ) = 1
),
-- Each Ray head reports on its own session, the part of the run key after the @.
last_report as (
    select
        scheduler,
        case when scheduler = 'ray' then split_part(run_key, '@', -1) end as session,
        max(greatest(start_us, case when end_us <= start_us + $run_us_max then end_us end, evidence_us)) as last_us
    from claim
    where cluster = $cluster
    group by all
),
sampled as (
    select max(last_us + last_interval_us // 2) as last_us from seen
),
-- A Ray head reports every minute while it runs a job. One that is silent for an hour while others report has crashed or
-- cannot be reached: its jobs end with its last report, and their outcome is unknown.
silent as (
    select session
    from last_report
    where scheduler = 'ray'
        and last_us < greatest((select max(last_us) from last_report), (select last_us from sampled)) - 3600000000
),
timed as (
    select
        scheduler,
        job_id,
        run_key,
        pod_uid,
        min(start_us) as start_us,
        -- An end in the year 9999 is a recording error; it would post millions of hours to the ledger. A Slurm job that is requeued
        -- in its first second has a record of no length beside the one that runs; one that ended then was only seen before it ended.
        case
            when any_value(scheduler) = 'slurm' and max(end_us) <= min(start_us)
                and bool_and(state in ('REQUEUED', 'PREEMPTED', 'NODE_FAIL')) filter (where end_us is not null)
                and bool_or(end_us is null and evidence_us > start_us) then null
            when max(end_us) is not null then least(max(end_us), min(start_us) + $run_us_max)
        end as end_us,
        max(greatest(start_us, evidence_us)) as last_us
    from claim
    where cluster = $cluster and rowid not in (select number from lone_claim)
    group by all
),
raylet as (
    select
        node,
        state = 'up' as up,
        since_us,
        arg_max(state = 'up', (observed_us, state = 'up')) over (partition by node) as now_up,
        arg_max(since_us, (observed_us, since_us)) over (partition by node) as now_since_us
    from node
    where cluster = $cluster and scheduler = 'ray' and since_us is not null
),
-- A Ray node that was lost has nothing any more, and one that joined again nothing of what it reported before: that ended with
-- the node, or with the last report. A node that is back since an earlier time was only missing from a report.
left_behind as (
    select
        t.job_id,
        t.run_key,
        t.pod_uid,
        k.node,
        arg_min(case when r.up then t.last_us else r.since_us end, (r.since_us, r.up)) as end_us
    from timed t
    join by_kind k
        on k.scheduler = t.scheduler and k.job_id = t.job_id and k.run_key = t.run_key
        and k.pod_uid is not distinct from t.pod_uid
    join raylet r
        on r.node = k.node and (r.since_us > t.last_us or (not r.up and r.since_us = t.last_us))
    where t.scheduler = 'ray' and t.end_us is null and not (r.now_up and r.now_since_us <= t.last_us)
    group by all
)
select
    ('0x' || substr(md5(concat_ws(chr(31), $cluster, k.scheduler, k.job_id, k.run_key)), 1, 15))::bigint as run_id,
    k.scheduler,
    k.job_id,
    k.run_key,
    k.pod_uid,
    any_value(k.pod) as pod,
    any_value(k.namespace) as namespace,
    k.node,
    k.profile,
    max(k.gpu_type) as gpu_type,
    any_value(greatest(k.device_count, (k.shares + n.replicas - 1) // n.replicas))::integer as device_count,
    max(k.shares) as shares,
    max(n.replicas) filter (where k.shares is not null) as replicas,
    -- Ten-thousandths of a device that each of them is held: Ray shares a GPU by fractions. Shares of a device that has
    -- an unknown number of them fit on one.
    any_value(
        case
            when k.shares is null then least(10000, greatest(1, round(10000 * k.amount / k.device_count)))
            when n.replicas is null then 1
            else least(
                10000,
                10000 * k.shares // (n.replicas * greatest(k.device_count, (k.shares + n.replicas - 1) // n.replicas))
            )
        end
    )::bigint as units,
    any_value(k.kind) = 'dra' as drawn,
    -- Slurm's accounting has a job's total, scontrol what it has on each node.
    any_value(k.scheduler = 'slurm' and k.kind = 'sacct') as totals,
    false as nested,
    max(k.device_indexes) as device_indexes,
    max(k.gpus) as gpus,
    any_value(t.start_us) as start_us,
    any_value(
        coalesce(
            t.end_us,
            -- Held up to the source's last report. Slurm's and Ray's records carry its time; a pod list is valid at the
            -- time it was written, taken as the end of the cluster's samples.
            case
                -- kube-state-metrics reports every pod continuously, and its records are written at least hourly: a pod
                -- that is missing for longer is held up to its last report.
                when k.kind = 'ksm'
                    and t.last_us < greatest(s.last_us, (select last_us from sampled)) - 3 * 3600000000
                then greatest(t.last_us, t.start_us)
                when k.scheduler in ('slurm', 'ray') then least(greatest(s.last_us, t.start_us), b.end_us)
                else greatest(s.last_us, t.start_us, (select last_us from sampled))
            end
        )
    ) as end_us,
    any_value(
        t.end_us is not null or b.end_us is not null
        or (k.scheduler = 'ray' and s.session in (select session from silent))
    ) as ended
from by_kind k
join preferred_kind o
    on o.scheduler = k.scheduler and o.job_id = k.job_id and o.run_key = k.run_key
    and o.pod_uid is not distinct from k.pod_uid and o.kind = k.kind
join timed t
    on t.scheduler = k.scheduler and t.job_id = k.job_id and t.run_key = k.run_key
    and t.pod_uid is not distinct from k.pod_uid
join last_report s
    on s.scheduler = k.scheduler
    and s.session is not distinct from case when k.scheduler = 'ray' then split_part(k.run_key, '@', -1) end
left join share_site n on n.node = k.node
left join left_behind b
    on k.scheduler = 'ray' and b.job_id = k.job_id and b.run_key = k.run_key and b.pod_uid is not distinct from k.pod_uid
    and b.node = k.node
where t.start_us is not null
group by k.scheduler, k.job_id, k.run_key, k.pod_uid, k.node, k.profile;
