-- A row is the scheduler's last message, within a span, about a pod without a node, or about the waiting pods of a job: events
-- are soon deleted, the pods keep the message. The name is that of the pod or the job.
with message as (
    select namespace, name, message, last_us, event_id as id
    from event
    where cluster = $cluster and object_kind = 'Pod' and reason = 'FailedScheduling'
    union all
    select
        -- A pushed record may have the namespace in its job id only.
        coalesce(namespace, nullif(regexp_extract(job_id, '^([^/]*)/', 1), '')),
        regexp_replace(job_id, '^[^/]*/', ''),
        message,
        evidence_us,
        ''
    from pending
    where cluster = $cluster and start_us is null and message is not null
        and reason is distinct from 'NoLongerWaits'
)
select namespace, name, message, last_us
from message
where last_us >= $from_us - $fresh_us and last_us < $until_us + $fresh_us
qualify row_number() over (partition by namespace, name order by last_us desc, id desc) = 1
order by last_us desc, namespace, name
limit $limit;
