-- A row is the last record of a queue, or of one of its flavors, up to an instant. A user's part of a queue is listed per queue
-- at a time, so there the queue above it is part of its name.
select
    cluster,
    scheduler,
    kind,
    name,
    namespace,
    parent,
    flavor,
    observed_us,
    state,
    priority,
    weight,
    quota,
    quota_max,
    lend_max,
    used,
    borrowed,
    pending_count,
    running_count,
    preemption,
    detail
from queue
where kind <> 'namespace' and ($cluster is null or cluster = $cluster)
    and (observed_us is null or observed_us <= $at_us)
qualify
    row_number() over (
        partition by
            cluster, scheduler, kind, namespace, name, flavor, case when kind in ('user', 'group') then parent end
        order by observed_us desc nulls last, rowid desc
    ) = 1
    and state is distinct from 'deleted'
order by cluster, scheduler, kind, namespace nulls first, name, parent nulls first, flavor nulls first
limit $limit;
