-- A row is the latest record of a queue, or of one flavor of it, that was not deleted.
select * exclude (file_id)
from queue
where cluster = $cluster
qualify
    row_number() over (
        partition by scheduler, kind, namespace, name, flavor, case when kind in ('user', 'group') then parent end
        order by observed_us desc nulls last, rowid desc
    ) = 1
    and state is distinct from 'deleted'
order by scheduler, kind, namespace, name, flavor
limit $limit;
