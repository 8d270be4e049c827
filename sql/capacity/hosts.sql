-- A row is a node of one model at an instant, the whole GPUs of it that are free, and a run that holds some of them (NULL:
-- none is held), with how many, whether others may take its place, and whether it stays where it is: a server that declares
-- it is latency-critical, a part of a gang on several nodes, and all on a node that no scheduler takes jobs for. What the run has
-- there of CPUs and memory (NULL: not known), and the rule of which nodes it may use.
with standing as (
    select
        coalesce(d.node, d.gpu) as place,
        coalesce(d.model, '') as model,
        d.pool,
        s.device_id,
        s.run_id,
        s.run_id is null and s.free_bucket = 'schedulable' and s.share_num = s.share_den as free,
        s.share_num = s.share_den as whole
    from segment s
    join device d on d.device_id = s.device_id and d.cluster = s.cluster
    where s.cluster = $cluster and s.start_us <= $at_us and s.end_us > $at_us
        and d.gi < 0 and d.kind is null
        and ($every_pool or d.pool is not distinct from $pool)
        and coalesce(list_contains($models::varchar[], d.model), $models is null)
),
place_size as (
    select place, model, pool, count(*) filter (where free) as free
    from standing
    group by place, model, pool
),
-- Scheduler records of each node before the instant.
node_record as (
    select scheduler, node, state
    from node
    where cluster = $cluster and coalesce(coalesce(observed_us, since_us) <= $at_us, true)
    qualify row_number() over (partition by scheduler, node order by observed_us desc nulls last) = 1
),
closed as (
    select distinct node
    from node_record
    where state <> 'up'
),
-- Pods of one job that started together, or one run: a part of it cannot move alone.
gang as (
    select r.job_id
    from segment s
    join device d on d.device_id = s.device_id and d.cluster = s.cluster
    join run r on r.run_id = s.run_id and r.cluster = s.cluster
    where s.cluster = $cluster and s.start_us <= $at_us and s.end_us > $at_us
    group by r.job_id
    having count(distinct coalesce(d.node, d.gpu)) > 1 and max(r.start_us) - min(r.start_us) <= 600000000
),
held as (
    select place, model, pool, run_id, count(*) as gpus
    from standing
    where run_id is not null and whole
    group by place, model, pool, run_id
),
own_claim as (
    select
        r.run_id,
        c.node as place,
        max(c.kind) as kind,
        max(c.node_rule) as node_rule,
        max(c.cpu_milli) as cpu_milli,
        max(c.memory_bytes) as memory_bytes
    from (select distinct run_id from held) h
    join run r on r.cluster = $cluster and r.run_id = h.run_id
    join claim c on c.cluster = $cluster and c.scheduler = r.scheduler and c.job_id = r.job_id and c.run_key = r.run_key
    where c.device_count > 0 and c.start_us <= $at_us and coalesce(c.end_us > $at_us, true)
    group by r.run_id, c.node, c.pod_uid
),
asked as (
    select
        run_id,
        place,
        max(kind) as kind,
        max(node_rule) as node_rule,
        case when count(*) = count(cpu_milli) then sum(cpu_milli) end::bigint as cpu_milli,
        case when count(*) = count(memory_bytes) then sum(memory_bytes) end::bigint as memory_bytes
    from own_claim
    group by run_id, place
)
select
    n.place,
    n.model,
    n.pool,
    n.free,
    h.run_id,
    h.gpus,
    r.job_id,
    r.scheduler,
    r.queue,
    r.user_name,
    a.kind,
    a.node_rule,
    a.cpu_milli,
    a.memory_bytes,
    coalesce(regexp_matches(lower(concat_ws(' ', r.qos, r.queue)), 'preempt|spot|scaveng|standby|best-?effort'), false)
        as preemptible,
    n.place in (select node from closed)
    or coalesce(r.job_id in (select job_id from gang), false)
    or coalesce(
        lower(coalesce(r.labels ->> '$."latency-critical"', r.labels ->> '$."gpuwatch.io/latency-critical"')) = 'true'
        or lower(coalesce(r.labels ->> '$."gpuwatch.io/workload-class"', r.labels ->> '$."workload-class"'))
            = 'latency-critical',
        false
    ) as stays
from place_size n
left join held h on h.place = n.place and h.model = n.model and h.pool is not distinct from n.pool
left join run r on r.run_id = h.run_id and r.cluster = $cluster
left join asked a on a.run_id = h.run_id and a.place = h.place
order by n.place, n.model, n.pool, h.gpus, r.job_id, h.run_id;
