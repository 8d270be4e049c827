-- A row is a kind of gangs that ran in the window: work that held GPUs in several pods or on several nodes at once.
-- declared: an object describes how the gang starts. whole: it starts with all of its pods or not at all (NULL: unknown).
-- topology: what it asks for (required, preferred, none; NULL: unknown). known: records show that it is one gang.
with unit as (
    select
        p.run_id,
        coalesce(c.pod_uid, c.pod, c.node) as unit,
        greatest(c.start_us, $since_us) as from_us,
        least(coalesce(c.end_us, $until_us), $until_us) as to_us,
        any_value(c.node) as node,
        max(c.device_count) as devices
    from claim c
    join audit_placed p
        on p.cluster = c.cluster and p.scheduler = c.scheduler and p.job_id = c.job_id and p.run_key = c.run_key
    where c.start_us < $until_us and coalesce(c.end_us, $until_us) > $since_us and p.authority <> 'inner'
    group by all
),
edge as (
    select run_id, from_us as at_us, 1 as units, devices from unit
    union all
    select run_id, to_us, -1, -devices from unit
),
running as (
    select
        run_id,
        sum(units) over (partition by run_id order by at_us, units rows unbounded preceding) as units,
        sum(devices) over (partition by run_id order by at_us, units rows unbounded preceding) as devices
    from edge
),
most as (
    select run_id, max(units) as units, max(devices) as devices
    from running
    group by run_id
    having max(units) > 1 and max(devices) > 1
),
requested as (
    select
        cluster,
        job_id,
        max(pod_count) as pods,
        bool_or(scheduler = 'kueue' and kind = 'Workload') as gated,
        max(min_count) as least,
        bool_or(
            coalesce(contains(json_extract(detail, '$.pod_sets[*].topology')::varchar, '"required"'), false)
            or coalesce((detail ->> '$.network_topology.mode') = 'hard', false)
            or (json_extract(detail, '$.network_topology') is not null and (detail ->> '$.network_topology.mode') is null)
        ) as required,
        bool_or(
            coalesce(contains(json_extract(detail, '$.pod_sets[*].topology')::varchar, '"preferred"'), false)
            or coalesce((detail ->> '$.network_topology.mode') = 'soft', false)
        ) as preferred
    from workload
    where job_id is not null and scheduler <> 'slurm'
    group by cluster, job_id
),
held as (
    select s.run_id, sum((least(s.end_us, $until_us) - greatest(s.start_us, $since_us))::double * s.share_num / s.share_den) as gpu_us
    from segment s
    where s.run_id in (select run_id from most) and s.start_us < $until_us and s.end_us > $since_us
    group by s.run_id
),
described as (
    select
        p.cluster,
        p.scheduler,
        p.authority,
        p.gate,
        p.job_id,
        h.gpu_us,
        a.job_id is not null as declared,
        case
            when p.scheduler = 'slurm' then true
            when a.job_id is not null then a.gated or coalesce(a.least >= coalesce(a.pods, m.units) and a.least > 1, false)
        end as whole,
        case
            when p.scheduler = 'slurm' or a.job_id is null then null
            when a.required then 'required'
            when a.preferred then 'preferred'
            else 'none'
        end as topology,
        p.scheduler = 'slurm' or a.job_id is not null
        or regexp_matches(
            coalesce(p.labels, ''),
            'training\.kubeflow\.org/|trainer\.kubeflow\.org/|batch\.kubernetes\.io/job-completion-index|jobset\.sigs\.k8s\.io/'
            || '|leaderworkerset\.sigs\.k8s\.io/|volcano\.sh/|pod-group\.scheduling\.sigs\.k8s\.io'
        ) as known
    from most m
    join audit_placed p using (run_id)
    join held h using (run_id)
    left join requested a on a.cluster = p.cluster and a.job_id = p.job_id
)
select
    cluster,
    scheduler,
    authority,
    gate,
    declared,
    whole,
    topology,
    known,
    count(*) as runs,
    sum(gpu_us) / 3600e6 as gpu_hours,
    (list(distinct job_id order by job_id))[1:5] as jobs
from described
group by all
order by gpu_hours desc, cluster, scheduler
limit $limit;
