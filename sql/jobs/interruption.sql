-- One row: the GPU-hours that runs held in the window, the runs whose end is known, and those of them that a node failure
-- ended. A run counts once, however many nodes it held.
with held as (
    select
        s.cluster,
        s.run_id,
        sum(
            (least(s.end_us, $end_us) - greatest(s.start_us, $start_us))::double * s.share_num / s.share_den
        ) / 3600e6 as gpu_hours
    from segment s
    join device d on d.device_id = s.device_id and d.cluster = s.cluster
    where s.run_id is not null and s.start_us < $end_us and s.end_us > $start_us
        and ($cluster is null or s.cluster = $cluster)
        and ($models::varchar[] is null or list_contains($models, d.model))
    group by s.cluster, s.run_id
)
select
    coalesce(sum(h.gpu_hours), 0)::double as gpu_hours,
    count(*) filter (where r.ended and r.state is not null and r.end_us between $start_us and $end_us) as ended_runs,
    count(*) filter (
        where r.ended and r.end_us between $start_us and $end_us
            and upper(r.state) in ('NODE_FAIL', 'BOOT_FAIL', 'NODELOST')
    ) as interruptions
from held h
join run r on r.run_id = h.run_id and r.cluster = h.cluster;
