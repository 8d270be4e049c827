-- A row is a pod that the scheduler found no node for when it last spoke of it, the newest first.
select cluster, namespace, name, message, last_us
from event
where ($cluster is null or cluster = $cluster)
    and object_kind = 'Pod'
    and reason in ('FailedScheduling', 'Scheduled')
    and last_us between $since_us and $at_us
qualify
    row_number() over (partition by cluster, namespace, name order by last_us desc, reason desc, event_id desc) = 1
    and reason = 'FailedScheduling'
order by last_us desc, cluster, namespace, name
limit $limit;
