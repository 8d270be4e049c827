-- A row is a pool and model with how long runs of between half and twice $gpus GPUs waited there before they started in the
-- window: every such run that has a time of submission, except those that gave a reason that free GPUs would not have ended.
-- A run that held GPUs of several pools counts in each.
with held as (
    select s.cluster, d.pool, d.model, s.run_id, count(distinct d.gpu) as gpus
    from segment s
    join device d on d.device_id = s.device_id and d.cluster = s.cluster
    where s.run_id is not null and s.start_us < $end_us and s.end_us > $start_us and coalesce(d.gi, -1) < 0
    group by s.cluster, d.pool, d.model, s.run_id
),
elsewhere as (
    select distinct cluster, job_id
    from pending
    where list_contains($reasons, reason)
),
waited as (
    select h.cluster, h.pool, h.model, greatest(r.start_us - r.submit_us, 0) as wait_us
    from held h
    join run r on r.run_id = h.run_id and r.cluster = h.cluster
    anti join elsewhere e on e.cluster = r.cluster and e.job_id = r.job_id
    where r.submit_us is not null and r.start_us >= $start_us and r.start_us < $end_us
        and h.gpus * 2 >= $gpus and h.gpus <= $gpus * 2
)
select
    cluster,
    pool,
    model as gpu_model,
    count(*) as runs,
    avg(wait_us) / 1e6 as mean_seconds,
    quantile_cont(wait_us, 0.9) / 1e6 as p90_seconds
from waited
group by cluster, pool, model
order by all;
