-- A row is the key of a finding about a GPU or a slice of it, the newest first.
select f.key
from finding f
where f.cluster = $cluster
    and list_has_any(f.device_ids, (select list(device_id) from device where cluster = $cluster and gpu = $gpu))
order by f.started_us desc, f.key
limit $limit;
