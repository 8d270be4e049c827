-- What is known in a window of CPUs and memory: by scheduler, whether some nodes lack them, whether some runs do, and whether
-- it is not known of some nodes what jobs or pods without GPUs have.
with newest as (
    select
        scheduler,
        node,
        arg_max_null(cpu_milli is null or memory_bytes is null, coalesce(observed_us, 0)) as bare,
        bool_and(cpu_milli_used is null) as alone
    from node
    where cluster = $cluster and scheduler in ('slurm', 'kubernetes')
    group by scheduler, node
),
held as (
    select c.scheduler, bool_or(c.cpu_milli is null or c.memory_bytes is null) as bare
    from claim c
    where c.cluster = $cluster and c.scheduler in ('slurm', 'kubernetes') and c.device_count > 0
        and c.start_us < $until_us and coalesce(c.end_us > $from_us, true)
    group by c.scheduler
)
select
    scheduler,
    coalesce(bool_or(n.bare), true) as nodes_lack,
    coalesce(bool_or(n.alone), true) as others_lack,
    coalesce(any_value(h.bare), false) as runs_lack
from newest n
full join held h using (scheduler)
group by scheduler
order by scheduler;
