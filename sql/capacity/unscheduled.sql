-- A row is a pod that the scheduler found no node for when it last spoke of it, the newest first, up to the end of what its cluster's
-- sources know (heard_at).
select e.cluster, e.namespace, e.name, e.message, e.last_us
from event e
join heard_at h using (cluster)
where ($cluster is null or e.cluster = $cluster)
    and object_kind = 'Pod'
    and reason in ('FailedScheduling', 'Scheduled')
    and e.last_us between h.at_us - $reach_us and h.at_us
qualify
    row_number() over (partition by cluster, namespace, name order by last_us desc, reason desc, event_id desc) = 1
    and reason = 'FailedScheduling'
order by last_us desc, cluster, namespace, name
limit $limit;
