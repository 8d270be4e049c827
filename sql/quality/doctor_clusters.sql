-- A row is a GPU measured in two clusters at the same time, and the names of the clusters.
with seen as (
    select gpu, cluster, greatest(min(first_us), $since_us) as first_us, max(last_us) as last_us
    from device
    where measured and starts_with(gpu, 'GPU-') and last_us > $since_us
    group by gpu, cluster
)
select gpu, list(distinct cluster order by cluster) as clusters
from (
    select
        gpu,
        cluster,
        coalesce(max(last_us) over before > first_us, false) or coalesce(min(first_us) over after < last_us, false)
            as twice
    from seen
    window
        before as (partition by gpu order by first_us, cluster rows between unbounded preceding and 1 preceding),
        after as (partition by gpu order by first_us, cluster rows between 1 following and unbounded following)
)
where twice
group by gpu
order by gpu;
