-- Finds runs inside other runs: Slurm and Ray in pods, whose names are used as node names, and Ray in Slurm jobs.
-- A name is compared without its domain, as hosts print it either way; pod_host has the names of pods.
insert into nested
with inner_run as (
    select
        scheduler,
        run_id,
        pod_uid,
        node,
        lower(node) as host,
        lower(split_part(node, '.', 1)) as short_host,
        min(start_us) as start_us,
        max(end_us) as end_us
    from wanted
    where scheduler in ('slurm', 'ray') and node is not null
    group by all
),
outer_run as (
    select
        scheduler as outer_scheduler,
        run_id as outer_run_id,
        w.pod_uid as outer_pod_uid,
        host as pod_host,
        coalesce(slinky, false) as slinky,
        lower(split_part(node, '.', 1)) as outer_host,
        min(start_us) as outer_start_us,
        max(end_us) as outer_end_us
    from wanted w
    left join pod_host h
        on w.scheduler = 'kubernetes' and h.pod = w.pod and h.pod_uid is not distinct from w.pod_uid
        and h.namespace is not distinct from w.namespace
    where scheduler in ('kubernetes', 'slurm')
    group by all
    union all
    -- A pod known only from labels of samples; its run is that of observed_hold.
    select
        'kubernetes',
        ('0x' || substr(md5(concat_ws(
            chr(31), $cluster, 'kubernetes', concat_ws('/', namespace, pod),
            coalesce(pod_uid, concat_ws('/', namespace, pod))
        )), 1, 15))::bigint,
        null,
        lower(rtrim(substr(pod, 1, 63), '-.')),
        false,
        null,
        min(first_us) - $label_lag_us,
        max(last_us) + $label_lag_us
    from owner_span
    where job is null and pod is not null and pod not in (select pod from wanted where pod is not null)
    group by namespace, pod, pod_uid
),
-- A name with measured GPUs of its own, or of a Kubernetes node, is a machine and not a pod of the same name.
machine as (
    select lower(node) as host from seen where node is not null
    union
    select lower(node) from node where cluster = $cluster and scheduler = 'kubernetes'
),
-- A Ray pod on its host's network has the name of the host.
ray_pod as (
    select distinct pod_uid
    from claim
    where cluster = $cluster and scheduler = 'kubernetes' and (labels ->> '$."ray.io/cluster"') is not null
        and exists (select 1 from inner_run where scheduler = 'ray')
),
in_pod as (
    select i.*, o.*
    from inner_run i
    join outer_run o on o.outer_scheduler = 'kubernetes' and o.pod_host = i.host
    where i.host not in (select host from machine)
    union
    select i.*, o.*
    from inner_run i
    join outer_run o on o.outer_scheduler = 'kubernetes' and o.pod_host = i.short_host
    where i.host not in (select host from machine) and i.short_host not in (select host from machine)
    union
    select i.*, o.*
    from inner_run i
    join outer_run o on o.slinky and o.pod_host in (i.host, i.short_host)
    where i.scheduler = 'slurm'
    union
    select i.*, o.*
    from inner_run i
    join outer_run o on o.outer_scheduler = 'kubernetes' and o.outer_host = i.short_host
    where i.scheduler = 'ray' and o.outer_pod_uid in (select pod_uid from ray_pod)
),
in_job as (
    select i.*, o.*
    from inner_run i
    join outer_run o on o.outer_scheduler = 'slurm' and o.outer_host = i.short_host
    where i.scheduler = 'ray'
),
pair as (
    select * from in_pod
    union all
    select * from in_job
)
select distinct
    scheduler,
    run_id,
    pod_uid,
    node,
    outer_scheduler,
    outer_run_id,
    outer_pod_uid,
    outer_start_us,
    outer_end_us
from pair
where start_us < outer_end_us and end_us > outer_start_us
-- Ray in Slurm in a pod: Slurm's job is the nearer one.
qualify outer_scheduler = 'slurm'
    or count(case when outer_scheduler = 'slurm' then 1 end) over (partition by run_id, pod_uid, node) = 0;

update wanted
set nested = true
from nested
where nested.run_id = wanted.run_id and nested.pod_uid is not distinct from wanted.pod_uid
    and nested.node = wanted.node;

-- Outside the pod's lifetime its name does not stand for a machine: records of it from other times hold nothing.
update wanted
set nested = true
where scheduler in ('slurm', 'ray')
    and lower(node) not in (select lower(node) from seen where node is not null)
    and lower(node) not in (select lower(node) from node where cluster = $cluster and scheduler = 'kubernetes')
    and (
        lower(node) in (select host from pod_host where pod in (select pod from wanted where scheduler = 'kubernetes'))
        or lower(split_part(node, '.', 1))
            in (select host from pod_host where pod in (select pod from wanted where scheduler = 'kubernetes'))
    );
