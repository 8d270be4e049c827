-- A row is a shape of requests of a cluster that were submitted in the window, started or not, and how many there were:
-- `members` places of `gpus` GPUs (or slices of `profile`) each, NULL if the number of GPUs is unknown. A gang known to its
-- queue counts once, not once for each of its pods. by_day: a row a day in which they were submitted.
with gang as (
    select cluster, job_id, submit_us, pod_count as members, device_count, profile, gpu_type
    from workload
    join cluster_end e using (cluster)
    where job_id is not null and pod_count > 1 and coalesce(min_count, pod_count) > 1 and device_count > 0
        and submit_us >= e.as_of_us - $lookback_us and submit_us < e.at_us
        and not coalesce(contains(profile, '/'), false)
    qualify row_number() over (partition by cluster, job_id order by observed_us desc nulls last, scheduler, kind, uid) = 1
),
on_node as (
    select
        c.cluster,
        c.job_id,
        c.run_key,
        c.node,
        c.profile,
        min(c.gpu_type) as gpu_type,
        min(coalesce(c.submit_us, c.start_us)) as submit_us,
        max(c.device_count) as device_count,
        max(c.fraction) as fraction
    from claim c
    join cluster_end e using (cluster)
    where coalesce(c.submit_us, c.start_us) >= e.as_of_us - $lookback_us
        and coalesce(c.submit_us, c.start_us) < e.at_us
        -- Shares of a GPU fit beside others', and other accelerators have places of their own: they ask for no free GPU.
        and (c.labels ->> '$."gpuwatch.io/shares"') is null
        and not coalesce(contains(c.profile, '/'), false)
    group by c.cluster, c.job_id, c.run_key, c.node, c.profile
),
started as (
    select
        cluster,
        job_id,
        min(submit_us) as submit_us,
        count(*) as members,
        sum(device_count)::bigint as device_count,
        min(profile) as profile,
        min(gpu_type) as gpu_type,
        case when count(*) = 1 then max(fraction) end as fraction
    from on_node
    group by cluster, job_id, run_key, coalesce(profile, '')
),
waiting as (
    select
        p.cluster,
        p.job_id,
        min(p.submit_us) as submit_us,
        max(p.node_count) as members,
        max(p.device_count) as device_count,
        min(p.profile) as profile,
        min(p.gpu_type) as gpu_type,
        null::double as fraction
    from pending p
    join cluster_end e using (cluster)
    where p.submit_us >= e.as_of_us - $lookback_us and p.submit_us < e.at_us
        and not coalesce(contains(p.profile, '/'), false)
    group by p.cluster, p.job_id, coalesce(p.profile, '')
),
request as (
    select cluster, submit_us, members, device_count, profile, gpu_type, null::double as fraction
    from gang
    union all
    select s.cluster, s.submit_us, s.members, s.device_count, s.profile, s.gpu_type, s.fraction
    from started s
    anti join gang using (cluster, job_id)
    union all
    select w.cluster, w.submit_us, w.members, w.device_count, w.profile, w.gpu_type, w.fraction
    from waiting w
    anti join gang using (cluster, job_id)
    anti join (select distinct cluster, job_id from started) s using (cluster, job_id)
),
-- What does not divide evenly over its places is taken to be free to lie anywhere.
shaped as (
    select
        cluster,
        case when $by_day then submit_us // 86400000000 * 86400000000 end as day_us,
        profile,
        gpu_type,
        case
            when device_count is null then null
            when profile is not null or device_count % greatest(coalesce(members, 1), 1) <> 0 then device_count
            else greatest(coalesce(members, 1), 1)
        end as members,
        case
            when fraction < 1 and device_count <= 1 then greatest(round(fraction * 1000), 1)
            else 1000
        end::bigint as share_milli,
        device_count
    from request
    where device_count > 0 or device_count is null
)
select
    cluster,
    day_us,
    (device_count // members)::bigint as gpus,
    members::bigint as members,
    share_milli,
    profile,
    gpu_type,
    count(*) as requests,
    (sum(count(*)) filter (where device_count is not null) over (partition by cluster, day_us))::bigint as requests_all
from shaped
group by cluster, day_us, device_count, members, share_milli, profile, gpu_type
qualify row_number() over (
    partition by cluster, day_us
    order by count(*) desc, device_count nulls first, members, share_milli, profile nulls first, gpu_type nulls first
) <= $limit
order by cluster, day_us, requests desc, gpus nulls first, members, share_milli, profile nulls first, gpu_type nulls first;
