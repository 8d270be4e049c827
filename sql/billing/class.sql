-- A row is a device of a cluster, with a MIG profile that it had, and the words of its class.
select
    d.device_id,
    d.gpu,
    d.node,
    d.pool,
    d.model,
    s.profile,
    coalesce(
        d.measured
        or exists (select 1 from device p where p.parent_id = d.device_id and p.cluster = d.cluster and p.measured),
        false
    ) as reporting
from device d
join (select distinct device_id, profile from segment where cluster = $cluster) s using (device_id)
where d.cluster = $cluster
order by all;
