-- A row of doubled is a pod reported both by a second-hand source (kube-state-metrics, YuniKorn) and by a more direct one, or a run
-- whose start was estimated because its local time is of an hour that clocks repeat, where another record of the job is certain of it.
create or replace temp table doubled as
with second_hand as (
    select distinct
        kind,
        job_id,
        run_key,
        pod_uid,
        namespace,
        pod,
        start_us,
        coalesce(end_us, 9223372036854775807) as end_us
    from claim
    where cluster = $cluster and kind in ('ksm', 'yunikorn')
),
nearer as (
    select
        kind,
        pod_uid,
        namespace,
        pod,
        min(start_us) as start_us,
        coalesce(max(end_us), 9223372036854775807) as end_us
    from claim
    where cluster = $cluster and kind <> 'yunikorn' and start_us is not null
        and pod in (select pod from second_hand)
    group by all
),
-- The record of an end is nearer to certain than that of a job that runs. A run that has both ended: it gives way to certain ones only.
guessed_time as (
    select kind, job_id, run_key, naive_us, naive_zone, start_us, bool_and(end_us is null) as runs
    from claim
    where cluster = $cluster and scheduler = 'slurm' and naive_us is not null
        and is_estimated_time(labels)
    group by all
)
select g.kind, g.job_id, g.run_key, null as pod_uid
from guessed_time g
join claim c
    on c.cluster = $cluster and c.scheduler = 'slurm' and c.job_id = g.job_id and c.run_key <> g.run_key
    and c.naive_us = g.naive_us and c.naive_zone = g.naive_zone
    -- Clocks are set back by half an hour, one hour or two. The record of a job after a resize has the printed start too, and begins later.
    and abs(c.start_us - g.start_us) in (1800000000, 3600000000, 7200000000)
where not is_estimated_time(c.labels) or (g.runs and c.end_us is not null)
union
select s.kind, s.job_id, s.run_key, s.pod_uid
from second_hand s
join nearer n on n.pod_uid = s.pod_uid and n.kind <> s.kind
union
select s.kind, s.job_id, s.run_key, s.pod_uid
from second_hand s
join nearer n
    on n.pod = s.pod and n.namespace is not distinct from s.namespace and n.kind <> s.kind
    and n.start_us < s.end_us and n.end_us > s.start_us
where s.pod_uid is null or n.pod_uid is null;

-- A row of share_site is a node and how many shares its devices have each. Slurm's own record counts for a pod that is its node.
create or replace temp table share_site as
with pod_node as (
    select
        node,
        arg_max(replicas, (coalesce(observed_us, since_us, 0), replicas)) as replicas,
        arg_max(sharing, (coalesce(observed_us, since_us, 0), sharing)) as sharing
    from node
    where cluster = $cluster and scheduler = 'slurm' and replicas is not null
        and node not in (select node from node_record where scheduler = 'slurm')
    group by node
)
select node, replicas, sharing from pod_node
union all
select node, replicas, sharing from site where node not in (select node from pod_node);

-- A row of single_profile is a node whose GPUs are all cut alike (strategy single), and a record or a slice of it with the profile at
-- that time, '' while they are whole. `nvidia.com/gpu` of a pod stands for one such slice.
create or replace temp table single_profile as
with layout as (
    select
        node,
        coalesce(observed_us, since_us, 0) as at_us,
        json_keys(devices) as profiles,
        mig_strategy
    from node_record
    where scheduler = 'kubernetes' and devices is not null and mig_strategy is distinct from 'mixed'
),
cut as (
    select distinct node from layout where len(profiles) = 1 and regexp_matches(profiles[1], '^[0-9]+g\.')
)
select node, at_us as from_us, at_us as until_us, profiles[1] as profile
from layout
where len(profiles) = 1 and (mig_strategy = 'single' or regexp_matches(profiles[1], '^[0-9]+g\.')) and node in (select node from cut)
union
select n.node, c.first_us, c.last_us, c.profile
from seen_context c
join seen n using (device_id)
where c.gi >= 0 and c.profile is not null and n.node in (select node from cut);

-- A row of single_pod is a pod on such a node and the profile of what it held: that of the record nearest to its time, whenever the
-- pod was read.
create or replace temp table single_pod as
select
    p.pod_uid,
    p.node,
    nullif(
        arg_min(
            s.profile,
            (greatest(p.start_us - s.until_us, s.from_us - p.end_us, 0), s.until_us - s.from_us, s.from_us, s.profile)
        ),
        ''
    ) as profile
from (
    select pod_uid, node, min(start_us) as start_us, max(coalesce(end_us, greatest(start_us, evidence_us))) as end_us
    from claim
    where cluster = $cluster and scheduler = 'kubernetes' and kind <> 'dra' and pod_uid is not null
        and node in (select node from single_profile)
    group by pod_uid, node
) p
join single_profile s using (node)
group by p.pod_uid, p.node;

-- A row of lone_claim is a record that is the only one of its run, where nothing else decides what the run held.
create or replace temp table lone_claim as
select run_id, min(number) as number
from (
    select
        ('0x' || substr(md5(concat_ws(chr(31), cluster, scheduler, job_id, run_key)), 1, 15))::bigint as run_id,
        rowid as number,
        scheduler in ('slurm', 'kubernetes') and kind not in ('ksm', 'yunikorn')
        and job_id is not null and run_key is not null and device_count > 0
        and profile is distinct from 'aws.amazon.com/neuroncore'
        and (labels ->> '$."gpuwatch.io/shares"') is null
        and not (scheduler = 'kubernetes' and coalesce(node in (select node from single_profile), false))
        and not (
            scheduler = 'kubernetes' and profile is null and device_count > 1 and coalesce(node in (select node from site where sharing in ('time-slicing', 'mps')), false)
        ) as plain
    from claim c
    where cluster = $cluster
        and not exists (
            select 1
            from doubled d
            where d.pod_uid is null and d.kind = c.kind and d.job_id = c.job_id and d.run_key = c.run_key
        )
)
group by run_id
having count(*) = 1 and bool_and(coalesce(plain, false));

-- A row of wanted is a run and a node (and pod) on which it held devices of one kind, all records of it merged. Where it held
-- shares of devices only (Slurm's shards, MPS), these are as many devices as have so many shares.
create or replace temp table wanted as
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
        arg_min(case when r.up then t.last_us else r.since_us end, r.since_us) as end_us
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
group by k.scheduler, k.job_id, k.run_key, k.pod_uid, k.node, k.profile
union all
select
    l.run_id,
    c.scheduler,
    c.job_id,
    c.run_key,
    c.pod_uid,
    c.pod,
    c.namespace,
    c.node,
    c.profile,
    c.gpu_type,
    c.device_count,
    null,
    null,
    least(10000, greatest(1, round(10000 * coalesce(c.fraction, c.device_count) / c.device_count)))::bigint,
    c.kind = 'dra',
    c.scheduler = 'slurm' and c.kind = 'sacct',
    false,
    c.device_indexes,
    c.gpus,
    c.start_us,
    coalesce(
        least(c.end_us, case when c.end_us is not null then c.start_us + $run_us_max end),
        greatest(s.last_us, c.start_us, case when c.scheduler <> 'slurm' then (select last_us from sampled) end)
    ),
    c.end_us is not null
from lone_claim l
join claim c on c.rowid = l.number
join last_report s on s.scheduler = c.scheduler and s.session is null
where c.start_us is not null;

-- A name is unique in its namespace: a pod whose end nobody recorded was gone when another pod of its name started.
update wanted
set end_us = n.next_us
from (
    select w.pod_uid, w.namespace, w.pod, min(other.start_us) as next_us
    from wanted w
    join wanted other
        on other.pod = w.pod and other.namespace is not distinct from w.namespace
        and other.pod_uid <> w.pod_uid and other.start_us > w.start_us
    where w.scheduler = 'kubernetes' and other.scheduler = 'kubernetes' and not w.ended
    group by w.pod_uid, w.namespace, w.pod
) n
where wanted.scheduler = 'kubernetes' and not wanted.ended and wanted.pod_uid = n.pod_uid and wanted.pod = n.pod
    and wanted.namespace is not distinct from n.namespace and wanted.end_us > n.next_us;

-- A row of unlisted is a pod of a dump, without an end, that a later dump of its namespace and node does not have: it was there up
-- to the last dump that has it, and gone by gone_us.
create or replace temp table unlisted as
with running as (
    select
        pod_uid,
        any_value(namespace) as namespace,
        any_value(node) as node,
        any_value(pod) as pod,
        max(greatest(start_us, evidence_us)) as last_us
    from claim
    where cluster = $cluster and scheduler = 'kubernetes' and pod_uid is not null
        and exists (select 1 from pod_list where cluster = $cluster)
    group by pod_uid
    -- A live source sees each pod go.
    having max(end_us) is null and bool_and(file_id is not null)
)
select r.pod_uid, r.namespace, r.pod, r.last_us, min(l.at_us) as gone_us
from running r
join pod_list l
    on l.cluster = $cluster and l.at_us > r.last_us
    and coalesce(l.namespace = r.namespace, true) and coalesce(l.node = r.node, true)
-- One whose name another pod took later ended then, see above.
where not exists (
    select 1
    from wanted w
    where w.scheduler = 'kubernetes' and w.pod = r.pod and w.namespace is not distinct from r.namespace
        and w.pod_uid <> r.pod_uid and w.start_us > r.last_us
)
group by r.pod_uid, r.namespace, r.pod, r.last_us;

update wanted
set end_us = u.last_us, ended = true
from unlisted u
where wanted.scheduler = 'kubernetes' and not wanted.ended and wanted.pod_uid = u.pod_uid and wanted.end_us > u.last_us;

-- A row of owner_span is a device labelled with a job or a pod, from the first to the last such sample of an hour.
create or replace temp table owner_span as
select
    s.device_id,
    c.job,
    c.namespace,
    c.pod,
    c.pod_uid,
    s.first_us,
    s.last_us,
    s.shared
from context_span s
join context c using (context_id)
where c.cluster = $cluster and (c.job is not null or c.pod is not null);

-- A row of ended_run is a run of Slurm whose end nobody recorded, and when it was over. A job runs once at a time: it was when the next
-- run of its number began, if the job was resized, and when the job was submitted again, if it was requeued. `unlisted`: or by the
-- last record of it, where a later list of the jobs of its user, account and partition does not have it; it is held while samples
-- name it, at most until that list.
create or replace temp table ended_run as
with several as (
    select job_id, split_part(run_key, '@', 1) as number
    from wanted
    where scheduler = 'slurm'
    group by all
    having count(distinct run_id) > 1 and not bool_and(ended)
),
run_time as (
    select
        w.run_id,
        w.job_id,
        split_part(w.run_key, '@', 1) as number,
        any_value(w.start_us) as start_us,
        bool_and(w.ended) as ended,
        any_value(c.submit_us) as submit_us,
        any_value(c.last_us) as last_us
    from wanted w
    join several v on v.job_id = w.job_id and v.number = split_part(w.run_key, '@', 1)
    join (
        select job_id, run_key, min(submit_us) as submit_us, max(greatest(start_us, evidence_us)) as last_us
        from claim
        where cluster = $cluster and scheduler = 'slurm'
        group by job_id, run_key
    ) c on c.job_id = w.job_id and c.run_key = w.run_key
    where w.scheduler = 'slurm'
    group by all
),
followed as (
    select
        r.run_id,
        greatest(
            r.last_us, case when n.submit_us > r.start_us then least(n.submit_us, n.start_us) else n.start_us end
        ) as end_us
    from run_time r
    join run_time n on n.job_id = r.job_id and n.number = r.number and n.start_us > r.start_us
    where not r.ended
    qualify row_number() over (partition by r.run_id order by n.start_us, n.run_id) = 1
),
running as (
    select
        ('0x' || substr(md5(concat_ws(chr(31), cluster, scheduler, job_id, run_key)), 1, 15))::bigint as run_id,
        any_value(job_id) as job_id,
        any_value(split_part(run_key, '@', 1)) as number,
        any_value(user_name) as user_name,
        any_value(account) as account,
        any_value(queue) as queue,
        max(greatest(start_us, evidence_us)) as last_us
    from claim
    where cluster = $cluster and scheduler = 'slurm' and start_us is not null
        and exists (select 1 from job_list where cluster = $cluster)
    group by 1
    -- A live source sees each job end.
    having max(end_us) is null and bool_and(file_id is not null)
),
unlisted as (
    select r.run_id, r.job_id, r.number, r.last_us, min(l.at_us) as gone_us
    from running r
    join job_list l
        on l.cluster = $cluster and l.at_us > r.last_us
        and coalesce(l.user_name = r.user_name, true) and coalesce(l.account = r.account, true)
        and coalesce(l.queue = r.queue, true)
    where r.run_id not in (select run_id from followed)
    group by all
),
named as (
    select u.run_id, max(o.last_us + n.last_interval_us // 2) as last_us
    from unlisted u
    join owner_span o on o.job in (u.job_id, u.number) and o.first_us < u.gone_us and o.last_us > u.last_us
    join seen n using (device_id)
    group by u.run_id
)
select run_id, end_us, false as unlisted
from followed
union all
select u.run_id, case when n.last_us is null then u.last_us else least(n.last_us, u.gone_us) end, true
from unlisted u
left join named n using (run_id);

update wanted
set end_us = e.end_us, ended = true
from ended_run e
where wanted.scheduler = 'slurm' and not (e.unlisted and wanted.ended) and wanted.run_id = e.run_id
    and wanted.end_us >= e.end_us;

-- A row of let_go is a node of a run of Slurm that a later record of the run, of the same kind, does not have: the job released it
-- between the two. It is held up to the last record that has it, and while samples of the node name the job, at most up to gone_us.
-- Where records of two kinds lack the node, the later end counts.
create or replace temp table let_go as
with on_node as (
    select job_id, run_key, kind, node, max(greatest(start_us, evidence_us)) as last_us
    from claim
    -- A live source has the time of the change.
    where cluster = $cluster and scheduler = 'slurm' and file_id is not null and node is not null and evidence_us is not null
    group by job_id, run_key, kind, node
    qualify count(*) over (partition by job_id, run_key, kind) > 1
        and min(last_us) over (partition by job_id, run_key, kind) < max(last_us) over (partition by job_id, run_key, kind)
),
released as (
    select o.job_id, o.run_key, o.node, o.last_us, min(c.evidence_us) as gone_us
    from on_node o
    join claim c
        on c.cluster = $cluster and c.scheduler = 'slurm' and c.file_id is not null and c.job_id = o.job_id
        and c.run_key = o.run_key and c.kind = o.kind and c.evidence_us > o.last_us
    group by all
),
named as (
    select r.job_id, r.run_key, r.node, max(o.last_us + n.last_interval_us // 2) as last_us
    from released r
    join seen n using (node)
    join owner_span o
        on o.device_id = n.device_id and o.job in (r.job_id, split_part(r.run_key, '@', 1))
        and o.first_us < r.gone_us and o.last_us > r.last_us
    group by all
)
select
    ('0x' || substr(md5(concat_ws(chr(31), $cluster, 'slurm', r.job_id, r.run_key)), 1, 15))::bigint as run_id,
    r.node,
    max(greatest(r.last_us, least(coalesce(n.last_us, 0), r.gone_us))) as end_us
from released r
left join named n using (job_id, run_key, node)
group by r.job_id, r.run_key, r.node;

update wanted
set end_us = g.end_us, ended = true
from let_go g
where wanted.run_id = g.run_id and wanted.node = g.node and wanted.end_us > g.end_us;

-- A row of guessed is a pod whose end is estimated, as marked in its last record.
create or replace temp table guessed as
select
    pod_uid,
    namespace,
    pod,
    max(end_us) as end_us,
    min(epoch_us(json_extract_string(labels, '$."gpuwatch.io/ended-by"')::timestamp)) as gone_us
from claim
where cluster = $cluster and scheduler = 'kubernetes' and end_us is not null
    and pod_uid in (select pod_uid from claim where cluster = $cluster and (labels ->> '$."gpuwatch.io/ended-by"') is not null)
group by all
having bool_and((labels ->> '$."gpuwatch.io/ended-by"') is not null)
union all
select pod_uid, namespace, pod, last_us, gone_us
from unlisted;

-- It is held while samples name it, at most until it was gone or another pod has its name.
update wanted
set end_us = e.end_us
from (
    with bounded as (
        select
            g.pod_uid,
            g.namespace,
            g.pod,
            g.end_us,
            least(g.gone_us, min(w.start_us)) as gone_us
        from guessed g
        left join wanted w
            on w.pod = g.pod and w.namespace is not distinct from g.namespace and w.pod_uid <> g.pod_uid
            and w.start_us >= g.end_us
        group by g.pod_uid, g.namespace, g.pod, g.end_us, g.gone_us
    )
    select b.pod_uid, max(least(b.gone_us, o.last_us + n.last_interval_us // 2)) as end_us
    from bounded b
    join owner_span o
        on o.pod = b.pod and o.namespace is not distinct from b.namespace and coalesce(o.pod_uid = b.pod_uid, true)
        and o.first_us < b.gone_us and o.last_us >= b.end_us
    join seen n using (device_id)
    group by b.pod_uid
) e
where wanted.scheduler = 'kubernetes' and wanted.pod_uid = e.pod_uid and e.end_us > wanted.end_us;

delete from wanted where end_us <= start_us;

-- A row of nested is a run on a "node" that itself is held by another scheduler's run, and that outer run.
create or replace temp table nested (
    scheduler varchar,
    run_id bigint,
    pod_uid varchar,
    node varchar,
    outer_scheduler varchar,
    outer_run_id bigint,
    outer_pod_uid varchar,
    outer_start_us bigint,
    outer_end_us bigint
);

-- A row of fraction_unit is a run (and pod) that holds a part of each of its devices, in ten-thousandths; `shared` if it holds
-- shares of them.
create or replace temp table fraction_unit as
select run_id, pod_uid, min(units) as units, bool_or(shares is not null) as shared
from wanted
where units < 10000
group by run_id, pod_uid;
