-- A row is the last word on the devices of one profile that a job waits for, with the columns of workload and the team of its
-- newest run, the longest waiting first. A word counts that is no older than $fresh_us at the end of what its cluster's sources know (heard_at). NoLongerWaits: the pods of the request were placed or deleted.
with last_word as (
    select p.*
    from pending p
    join heard_at h using (cluster)
    where ($cluster is null or p.cluster = $cluster)
        and p.evidence_us between h.at_us - $fresh_us and h.at_us
        and job_id is not null
    qualify
        row_number() over (
            partition by p.cluster, p.scheduler, p.job_id, p.profile
            order by p.evidence_us desc, (p.reason is not distinct from 'NoLongerWaits') desc, p.rowid desc
        ) = 1
),
job_team as (
    select r.cluster, r.job_id, arg_max(t.team, (r.start_us, r.run_id)) as team
    from run r
    join run_team t on t.run_id = r.run_id and t.cluster = r.cluster
    where t.team <> '__unallocated__' and (r.cluster, r.job_id) in (select (cluster, job_id) from last_word)
    group by r.cluster, r.job_id
)
select
    w.* replace (
        p.cluster as cluster,
        p.scheduler as scheduler,
        p.job_id as uid,
        regexp_replace(p.job_id, '^[^/]*/', '') as name,
        p.namespace as namespace,
        p.job_id as job_id,
        p.queue as queue,
        p.node_count as pod_count,
        p.device_count as device_count,
        p.profile as profile,
        p.gpu_type as gpu_type,
        p.submit_us as submit_us,
        'pending' as state,
        p.reason as reason,
        p.message as message,
        p.user_name as user_name,
        p.evidence_us as observed_us
    ),
    p.account,
    t.team
from last_word p
left join workload w on false
left join job_team t on t.cluster = p.cluster and t.job_id = p.job_id
where p.start_us is null and p.reason is distinct from 'NoLongerWaits'
order by p.submit_us nulls last, p.cluster, p.scheduler, p.job_id, p.profile nulls first
limit $limit;
