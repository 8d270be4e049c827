-- A row is a finding with the labels of its run, its team, its devices and nodes by name, and whether its job has ended or serves
-- requests.
with wanted as (
    select * from finding where list_contains($keys::varchar[], key)
),
named as (
    select
        f.key,
        list(distinct case when d.gi >= 0 then d.gpu || '/GI-' || d.gi else d.gpu end order by case when d.gi >= 0 then d.gpu || '/GI-' || d.gi else d.gpu end) as devices,
        list(distinct d.node order by d.node) filter (where d.node is not null) as nodes,
        case when count(distinct d.gpu) = 1 then max(d.gpu_index) end as gpu_index
    from (select key, cluster, unnest(device_ids) as device_id from wanted) f
    join device d on d.device_id = f.device_id and d.cluster = f.cluster
    group by f.key
)
select
    f.* exclude (device_ids, nodes, team),
    coalesce(f.subject_name, r.name, f.subject_id) as name,
    r.user_name,
    coalesce(f.team, t.team, case when f.run_id is null then '__platform__' else '__unallocated__' end) as team,
    -- Named by the account or namespace of its run. A finding about a team is, if no rule decides any run of that team.
    coalesce(
        case
            when f.team is null then t.inferred
            else (select bool_and(coalesce(o.inferred, false)) from run_team o where o.team = f.team and o.cluster = f.cluster)
        end,
        false
    ) as inferred,
    f.subject_kind = 'job' and coalesce(
        (select bool_and(e.ended) from run e where e.cluster = f.cluster and e.job_id = f.subject_id and e.scheduler = r.scheduler),
        false
    ) as job_ended,
    coalesce(
        lower(coalesce(r.labels ->> '$."gpuwatch.io/workload-class"', r.labels ->> '$."workload-class"'))
            in ('inference', 'serving', 'latency-critical')
        or json_exists(r.labels, '$."serving.kserve.io/inferenceservice"') or json_exists(r.labels, '$."ray.io/serve"'),
        false
    ) as is_serving,
    n.devices,
    coalesce(f.nodes, n.nodes) as nodes,
    n.gpu_index
from wanted f
left join named n using (key)
left join run r on r.run_id = f.run_id and r.cluster = f.cluster
left join run_team t on t.run_id = f.run_id and t.cluster = f.cluster
order by f.key;
