-- A row is a node of one model at an instant, the whole GPUs of it that are free, and a run that holds some of them (NULL:
-- nobody holds any), with how many, and whether others may take its place.
with standing as (
    select
        coalesce(d.node, d.gpu) as place,
        coalesce(d.model, '') as model,
        d.pool,
        s.device_id,
        s.run_id,
        s.run_id is null and s.free_bucket = 'schedulable' and s.share_num = s.share_den as free,
        s.share_num = s.share_den as whole
    from segment s
    join device d on d.device_id = s.device_id and d.cluster = s.cluster
    where s.cluster = $cluster and s.start_us <= $at_us and s.end_us > $at_us
        and d.gi < 0
        and d.pool is not distinct from $pool
        and coalesce(list_contains($models::varchar[], d.model), $models is null)
),
node as (
    select place, model, any_value(pool) as pool, count(*) filter (where free) as free
    from standing
    group by place, model
),
held as (
    select place, model, run_id, count(*) as gpus
    from standing
    where run_id is not null and whole
    group by place, model, run_id
)
select
    n.place,
    n.model,
    n.free,
    h.run_id,
    h.gpus,
    r.job_id,
    coalesce(regexp_matches(lower(concat_ws(' ', r.qos, r.queue)), 'preempt|spot|scaveng|standby|best-?effort'), false)
        as preemptible
from node n
left join held h using (place, model)
left join run r on r.run_id = h.run_id and r.cluster = $cluster
order by n.place, n.model, h.gpus, r.job_id, h.run_id;
