-- A row is the last word on the devices of one profile that a job waits for, with the columns of workload, the longest
-- waiting first. NoLongerWaits: the pods of the request were placed or deleted.
with last_word as (
    select *
    from pending
    where ($cluster is null or cluster = $cluster)
        and evidence_us between $since_us and $at_us
        and job_id is not null
    qualify
        row_number() over (
            partition by cluster, scheduler, job_id, profile
            order by evidence_us desc, (reason is not distinct from 'NoLongerWaits') desc, rowid desc
        ) = 1
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
    null::varchar as team
from last_word p
left join workload w on false
where p.start_us is null and p.reason is distinct from 'NoLongerWaits'
order by p.submit_us nulls last, p.cluster, p.scheduler, p.job_id, p.profile nulls first
limit $limit;
