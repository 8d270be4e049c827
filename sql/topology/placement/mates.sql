-- A row is a whole GPU of one model in some pools, held or not, now or once.
select distinct gpu
from device
where cluster = $cluster and gi < 0 and measured and model = $model and list_contains($pools, coalesce(pool, ''))
order by gpu;
