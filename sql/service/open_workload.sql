-- A row is the latest record of a gang, queued workload or application that has not ended, newest first.
select * exclude (file_id)
from workload
where cluster = $cluster
qualify
    row_number() over (
        partition by scheduler, kind, uid
        order by observed_us desc nulls last, rowid desc
    ) = 1
    and coalesce(state not in ('finished', 'failed', 'deleted'), true)
order by observed_us desc nulls last, scheduler, kind, uid
limit $limit;
