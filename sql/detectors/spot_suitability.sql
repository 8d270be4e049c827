-- A row is a job that spot capacity would make cheaper, lost work counted twice. spot_case (made before)
-- has the possible saving, computed as in `gpuwatch decide spot`.
with recent as (
    select
        r.job_id,
        min(r.start_us) as start_us,
        max(r.end_us) as end_us,
        arg_max(r.run_id, (r.start_us, r.run_id)) as run_id,
        bool_or(
            coalesce(try_cast(r.labels ->> '$."gpuwatch.io/exempt-until"' as timestamp) > make_timestamp(r.end_us), false)
        ) as is_exempt
    from run r
    where r.cluster = $cluster and r.job_id in (select job from spot_case)
    group by r.job_id
)
select
    'job' as subject_kind,
    s.job as subject_id,
    t.start_us,
    least(t.end_us, s.until_us) as end_us,
    t.end_us >= s.until_us - $recent_us as still,
    t.run_id,
    s.team,
    'info' as severity,
    0.6 as confidence,
    map {
        'gpu_hours': s.gpu_hours,
        'longest_run_hours': s.longest_run_hours,
        'nodes': s.nodes,
        'checkpoint_minutes': s.checkpoint_minutes,
        'interruptions_an_hour': s.interruptions_an_hour,
        'lost_ratio': s.lost_ratio,
        'spot_price_ratio': s.spot_price_ratio
    } as numbers,
    map {'cost': s.cost, 'saving': s.saving, 'currency': s.currency} as words
from spot_case s
join recent t on t.job_id = s.job
where not t.is_exempt
    and s.gpu_hours >= $gpu_hours_min
    and s.lost_ratio * $margin <= 1 - s.spot_price_ratio
order by s.job;
