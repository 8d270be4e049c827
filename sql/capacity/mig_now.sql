-- A row is a MIG instance at an instant, and whether its GPU is held.
select
    d.pool,
    d.model,
    d.gpu,
    d.gi,
    s.profile,
    bool_or(bool_or(s.run_id is not null or s.free_bucket = 'out_of_service')) over (partition by d.gpu) as busy
from segment s
join device d on d.device_id = s.device_id and d.cluster = s.cluster
where s.cluster = $cluster and d.gi >= 0 and s.start_us < $at_us and s.end_us >= $at_us
group by d.pool, d.model, d.gpu, d.gi, s.profile
order by d.gpu, d.gi;
