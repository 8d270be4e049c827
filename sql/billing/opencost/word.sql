-- A row of oc_held is a device that a run held within the window, with $teams a run of these; the run is NULL for unheld time.
create or replace temp table oc_held as
select h.cluster, h.device_id, h.run_id, d.node
from (
    select distinct cluster, device_id, run_id
    from segment
    where start_us < $end_us and end_us > $start_us and ($include_idle or run_id is not null)
        and (
            $teams::varchar[] is null
            or run_id in (select run_id from run_team where list_contains($teams::varchar[], team))
        )
) h
join device d on d.device_id = h.device_id and d.cluster = h.cluster;

-- A row of oc_pod is the pod of a run on a device: one that the scheduler names on its node and the exporter on the
-- device, else one that either names alone.
create or replace temp table oc_pod as
with asked as (
    select distinct r.*
    from run r
    join oc_held h on h.run_id = r.run_id and h.cluster = r.cluster
    where $by_pod and r.scheduler = 'kubernetes'
),
reported as (
    select distinct r.cluster, r.run_id, c.node, coalesce(c.namespace, r.namespace) as namespace, c.pod
    from claim c
    join asked r
        on r.cluster = c.cluster and r.scheduler = c.scheduler and r.job_id = c.job_id and r.run_key = c.run_key
    where c.pod is not null
),
labelled as (
    select distinct cluster, device_id, namespace, pod, pod_uid, container
    from context
    where $by_pod and pod is not null
),
candidate as (
    select h.cluster, h.device_id, h.run_id, t.pod, l.container, case when l.pod is null then 1 else 0 end as place
    from oc_held h
    join reported t on t.run_id = h.run_id and t.cluster = h.cluster and (t.node = h.node or t.node is null)
    left join labelled l
        on l.cluster = h.cluster and l.device_id = h.device_id and l.pod = t.pod
        and l.namespace is not distinct from t.namespace
    union all
    select h.cluster, h.device_id, h.run_id, l.pod, l.container, 2
    from oc_held h
    join asked r on r.run_id = h.run_id and r.cluster = h.cluster
    join labelled l
        on l.cluster = h.cluster and l.device_id = h.device_id
        and (
            l.pod_uid = r.run_key
            or (
                l.namespace is not distinct from r.namespace
                and (l.namespace || '/' || l.pod = r.job_id or starts_with(l.namespace || '/' || l.pod, r.job_id || '-'))
            )
        )
)
select cluster, device_id, run_id, pod, container
from candidate
qualify row_number() over (partition by cluster, device_id, run_id order by place, pod, container) = 1;

-- A row of oc_controller is the kind of a job as its queue or operator reports it.
create or replace temp table oc_controller as
select cluster, job_id, lower(min(kind)) as kind
from workload
where $by_controller and job_id is not null and scheduler in ('kubernetes', 'ray')
    and kind not in ('Workload', 'PodGroup', 'Application')
group by cluster, job_id;

-- A row of oc_named is a device that a run held (or none), and the names it is counted under: OpenCost's words, NULL where they
-- were not asked for. Slurm's partition is the namespace and its job the controller, as a pod of its own.
create or replace temp table oc_named as
with named as (
    select
        h.cluster,
        h.device_id,
        h.run_id,
        h.node,
        r.scheduler,
        r.job_id,
        p.pod,
        p.container,
        case
            when r.scheduler = 'slurm' then coalesce(r.queue, r.namespace) else coalesce(r.namespace, r.queue)
        end as namespace,
        case
            when r.scheduler = 'kubernetes' and contains(r.job_id, '/') then split_part(r.job_id, '/', 2)
            else r.job_id
        end as owner,
        r.labels,
        r.account,
        r.user_name,
        r.qos,
        r.name,
        t.team,
        k.kind as reported_kind
    from oc_held h
    left join run r on r.run_id = h.run_id and r.cluster = h.cluster
    left join (select * from run_team where $by_team) t on t.run_id = h.run_id and t.cluster = h.cluster
    left join oc_pod p on p.run_id = h.run_id and p.device_id = h.device_id and p.cluster = h.cluster
    left join oc_controller k on k.cluster = h.cluster and k.job_id = r.job_id
),
kinded as (
    select
        *,
        case
            when not $by_controller then null
            when scheduler = 'slurm' then 'slurmjob'
            when scheduler = 'ray' then coalesce(reported_kind, 'rayjob')
            when reported_kind is not null then reported_kind
            when pod = owner then null
            when contains(coalesce(labels, ''), '"pod-template-hash"') then 'deployment'
            when contains(coalesce(labels, ''), 'job-name"') then 'job'
            when contains(coalesce(labels, ''), '"statefulset.kubernetes.io/pod-name"') then 'statefulset'
            when contains(coalesce(labels, ''), '"controller-revision-hash"')
                and not regexp_full_match(pod, '.*-[0-9]+') then 'daemonset'
            when regexp_full_match(substr(pod, length(owner) + 1), '-[0-9]+') then 'statefulset'
            when regexp_full_match(substr(pod, length(owner) + 1), '-[a-z0-9]{6,10}-[a-z0-9]{5}') then 'deployment'
            when regexp_full_match(substr(pod, length(owner) + 1), '-([0-9]+-)?[a-z0-9]{5}') then 'job'
        end as kind
    from named
)
select
    cluster,
    device_id,
    run_id,
    case when $by_node then node end as node,
    case when $by_namespace then namespace end as namespace,
    kind as controller_kind,
    case when $by_controller and not (scheduler = 'kubernetes' and coalesce(pod = owner, false)) then owner end
        as controller,
    case when $keep_pod then case when scheduler = 'kubernetes' then pod else job_id end end as pod,
    case when $keep_pod then container end as container,
    case when $by_team and run_id is not null then coalesce(team, '__unallocated__') end as team,
    case when $by_label then labels end as labels,
    case when $by_label and scheduler <> 'kubernetes' then account end as account,
    case when $by_label and scheduler <> 'kubernetes' then user_name end as user_name,
    case when $by_label and scheduler <> 'kubernetes' then qos end as qos,
    case when $by_label and scheduler <> 'kubernetes' then name end as job_name
from kinded;

-- A row of oc_word is one such set of words, by the number that sums are made over: numbers group faster than words.
create or replace temp table oc_word as
select row_number() over () as word_id, *
from (select distinct run_id is not null as held, * exclude (device_id, run_id) from oc_named);

-- A row of oc_owner is a device and its owner (0 for none), and the names it is counted under.
create or replace temp table oc_owner as
select n.device_id, coalesce(n.run_id, 0) as run_id, w.word_id
from oc_named n
join oc_word w
    on w.cluster = n.cluster
    and w.held = (n.run_id is not null)
    and w.node is not distinct from n.node
    and w.namespace is not distinct from n.namespace
    and w.controller_kind is not distinct from n.controller_kind
    and w.controller is not distinct from n.controller
    and w.pod is not distinct from n.pod
    and w.container is not distinct from n.container
    and w.team is not distinct from n.team
    and w.labels is not distinct from n.labels
    and w.account is not distinct from n.account
    and w.user_name is not distinct from n.user_name
    and w.qos is not distinct from n.qos
    and w.job_name is not distinct from n.job_name;
