-- A row means that every device of a cluster is in the class of its current attributes.
select 1
where not exists (
    select 1
    from device d
    join device_class k on k.device_id = d.device_id and k.cluster = d.cluster
    join (select distinct cluster, class_id, pool, model, reporting from class_price where cluster = $cluster) p
        on p.class_id = k.class_id and p.cluster = k.cluster
    where d.cluster = $cluster
        and (
            p.pool is distinct from d.pool
            or p.model is distinct from d.model
            or p.reporting <> (
                d.measured
                or exists (
                    select 1 from device s where s.parent_id = d.device_id and s.cluster = d.cluster and s.measured
                )
            )
        )
)
    and not exists (
        select device_id, profile from segment where cluster = $cluster
        except
        select device_id, profile from device_class where cluster = $cluster
    );
