-- A row is an authority that placed work on a pool in the window, through one gate or none.
select
    cluster,
    pool,
    authority,
    gate,
    sum(gpu_us) / 3600e6 as gpu_hours,
    sum(gpu_us) / nullif(sum(sum(gpu_us)) over (partition by cluster, pool), 0) as ratio,
    count(distinct node) as nodes
from audit_used
group by cluster, pool, authority, gate
order by cluster, pool, gpu_hours desc, authority, gate
limit $limit;
