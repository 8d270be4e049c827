-- A row is a node with whole GPUs and without sharing, how many it has, and the most that it held or had at one time (a minute
-- or more). gpus is NULL where no scheduler described the node.
with described as (
    select
        cluster,
        node,
        bool_or(coalesce(sharing, 'none') <> 'none' or json_keys(devices) <> ['']) as other,
        max(list_sum(try_cast(json_extract(devices, '$.*') as integer[]))) as gpus
    from node
    where devices is not null and node is not null
    group by all
),
held as (
    select c.cluster, c.node, r.run_id, r.start_us, r.end_us, c.kind, sum(c.number) as number
    from (
        select cluster, scheduler, job_id, run_key, node, kind, gpu_type, max(device_count) as number
        from claim
        where scheduler = 'slurm' and profile is null and fraction is null and node is not null
            and (labels ->> '$."gpuwatch.io/shares"') is null
        group by all
    ) c
    join run r
        on r.cluster = c.cluster and r.scheduler = c.scheduler and r.job_id = c.job_id and r.run_key = c.run_key and r.ended
    where r.end_us > $since_us
    group by all
),
run_hold as (
    select cluster, node, run_id, start_us, end_us, max(number) as number
    from held
    group by all
),
change as (
    select cluster, node, 'held' as what, start_us + 30000000 as at_us, number from run_hold
    union all
    select cluster, node, 'held', greatest(end_us - 30000000, start_us + 30000000), -number from run_hold
    union all
    select d.cluster, d.node, 'owned', p.start_us + 30000000, 1
    from capacity p
    join device d using (cluster, device_id)
    where d.node is not null and d.gi < 0 and p.end_us > $since_us
    union all
    select d.cluster, d.node, 'owned', greatest(p.end_us - 30000000, p.start_us + 30000000), -1
    from capacity p
    join device d using (cluster, device_id)
    where d.node is not null and d.gi < 0 and p.end_us > $since_us
),
level as (
    select
        cluster,
        node,
        what,
        at_us,
        sum(number) over (partition by cluster, node, what order by at_us range unbounded preceding) as number
    from change
)
select
    l.cluster,
    l.node,
    d.gpus,
    max(l.number)::bigint as most,
    arg_max(l.at_us, (l.number, -l.at_us)) as at_us
from level l
left join described d on d.cluster = l.cluster and d.node = l.node
where not coalesce(d.other, false)
group by l.cluster, l.node, d.gpus
order by all;
