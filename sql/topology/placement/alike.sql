-- A row is a whole GPU of one model, in the pools of a gang, at one instant: and whether it was available. Where the
-- held GPUs of a node are only estimated, none of its GPUs is known to have been free.
with standing as (
    select
        d.gpu,
        d.gi < 0 and d.measured and d.model = $model and list_contains($pools, coalesce(d.pool, '')) as alike,
        s.run_id is null and s.free_bucket = 'schedulable' and s.share_num = s.share_den as free,
        bool_or(s.estimated) over (partition by coalesce(d.node, d.gpu)) as guessed
    from segment s
    join device d on d.cluster = s.cluster and d.device_id = s.device_id
    where s.cluster = $cluster and s.start_us <= $at_us and s.end_us > $at_us
)
select gpu, bool_and(free and not guessed) as free
from standing
where alike
group by gpu
order by gpu;
