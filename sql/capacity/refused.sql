-- A row is the scheduler's last message, within a span, about a pod without a node.
select namespace, name, message, last_us
from event
where cluster = $cluster and object_kind = 'Pod' and reason = 'FailedScheduling'
    and last_us >= $from_us - $fresh_us and last_us < $until_us + $fresh_us
qualify row_number() over (partition by namespace, name order by last_us desc, event_id desc) = 1
order by last_us desc, namespace, name
limit $limit;
