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

-- A row of wanted is a run and a node (and pod) on which it held devices of one kind. Those of lone records come first, as they stand.
create or replace temp table wanted as
with last_report as (
    select scheduler, max(greatest(start_us, case when end_us <= start_us + $run_us_max then end_us end, evidence_us)) as last_us
    from claim
    where cluster = $cluster
    group by scheduler
)
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
    c.device_count::integer as device_count,
    null::bigint as shares,
    null::integer as replicas,
    least(10000, greatest(1, round(10000 * coalesce(c.fraction, c.device_count) / c.device_count)))::bigint as units,
    c.kind = 'dra' as drawn,
    c.scheduler = 'slurm' and c.kind = 'sacct' as totals,
    false as nested,
    c.device_indexes,
    c.gpus,
    c.start_us,
    coalesce(
        least(c.end_us, case when c.end_us is not null then c.start_us + $run_us_max end),
        greatest(
            s.last_us,
            c.start_us,
            case when c.scheduler <> 'slurm' then (select max(last_us + last_interval_us // 2) from seen) end
        )
    ) as end_us,
    c.end_us is not null as ended
from lone_claim l
join claim c on c.rowid = l.number
join last_report s on s.scheduler = c.scheduler
where c.start_us is not null;

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

-- What the ends of pods and of Slurm jobs depend on; empty where a cluster has no such records.
create or replace temp table unlisted (pod_uid varchar, namespace varchar, pod varchar, last_us bigint, gone_us bigint);

create or replace temp table guessed (pod_uid varchar, namespace varchar, pod varchar, end_us bigint, gone_us bigint);

create or replace temp table ended_run (run_id bigint, end_us bigint, unlisted boolean);

create or replace temp table let_go (run_id bigint, node varchar, end_us bigint);
