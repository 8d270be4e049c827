-- A row is a request for NVIDIA GPUs and the time in which it waited within the window: a run that started later than it was
-- submitted, or a request that had not started when its scheduler last spoke of it. Requests whose
-- reason a free device would not have ended are left out. It needs device_count / nodes devices on each of `nodes` nodes (on Kubernetes: for as many pods,
-- which may share one); where the number is not known, all on one node.
create or replace temp table report_request as
with asked as (
    select
        cluster,
        job_id,
        run_key,
        any_value(scheduler) as scheduler,
        any_value(queue) as queue,
        any_value(profile) as profile,
        count(distinct coalesce(profile, '')) as profiles,
        any_value(gpu_type) as gpu_type,
        sum(device_count) as device_count,
        count(distinct coalesce(pod_uid, node)) as nodes
    from (
        select
            cluster, job_id, run_key, scheduler, queue, profile, gpu_type, node, pod_uid,
            max(device_count) as device_count
        from claim
        where submit_us < $end_us and start_us > $start_us and submit_us < start_us
            and not coalesce(contains(profile, '/') or contains(labels, '"gpuwatch.io/shares"'), false)
        group by all
    )
    group by cluster, job_id, run_key
),
elsewhere as (
    select distinct cluster, job_id
    from pending
    where list_contains($reasons, reason) and submit_us < $end_us and evidence_us > $start_us
),
started as (
    select
        r.cluster,
        a.scheduler,
        r.job_id,
        r.labels,
        r.queue,
        r.namespace,
        r.account,
        r.user_name,
        a.profile,
        a.gpu_type,
        a.device_count,
        a.nodes,
        r.submit_us as start_us,
        r.start_us as end_us
    from run r
    join asked a using (cluster, job_id, run_key)
    where a.profiles = 1 and r.submit_us < r.start_us
),
waits as (
    select
        cluster,
        any_value(scheduler) as scheduler,
        job_id,
        null::varchar as labels,
        any_value(queue) as queue,
        any_value(namespace) as namespace,
        any_value(account) as account,
        any_value(user_name) as user_name,
        any_value(profile) as profile,
        any_value(gpu_type) as gpu_type,
        max(device_count) as device_count,
        max(node_count) as nodes,
        min(submit_us) as start_us,
        coalesce(max(start_us), max(evidence_us)) as end_us
    from pending
    where submit_us < $end_us and evidence_us > $start_us and not coalesce(contains(profile, '/'), false)
    group by cluster, job_id
    having count(distinct coalesce(profile, '')) = 1
),
every as (
    select *
    from started
    union all
    select w.*
    from waits w
    anti join started s using (cluster, job_id)
)
select
    row_number() over (order by e.cluster, e.job_id, e.start_us, e.end_us) as number,
    e.* replace (
        greatest(e.start_us, $start_us) as start_us,
        least(e.end_us, $end_us) as end_us,
        least(greatest(coalesce(e.nodes, 1), 1), e.device_count) as nodes
    )
from every e
anti join elsewhere using (cluster, job_id)
where e.device_count > 0 and greatest(e.start_us, $start_us) < least(e.end_us, $end_us)
limit $limit;
