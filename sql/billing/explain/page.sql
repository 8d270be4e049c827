-- A row is a line of a page. Columns that do not apply to a row of charge_rest, or to time that no run held, are NULL.
select
    t.key,
    t.rest_key,
    t.units::varchar as units,
    t.amount::varchar as amount,
    t.units_upto::varchar as units_upto,
    t.amount_upto::varchar as amount_upto,
    coalesce(u.cluster, r.cluster) as cluster,
    u.node,
    u.gpu,
    u.gi,
    u.gpu_index,
    u.measured,
    u.profile,
    coalesce(p.pool, r.pool) as pool,
    coalesce(p.gpu_model, r.gpu_model) as gpu_model,
    l.run_id::varchar as run,
    o.owner,
    o.job_id as job,
    o.user_name as user,
    o.scheduler,
    l.start_us,
    l.end_us,
    l.device_us,
    l.segments,
    l.share_num,
    l.share_den,
    l.method,
    l.split,
    l.conflict,
    coalesce(l.end_us = o.guessed_end_us, false) as end_estimated,
    l.free_bucket,
    l.policy,
    l.factor,
    p.* exclude (unit_id, kind_id, pool, gpu_model, start_us, end_us, price),
    r.day_us,
    r.kind,
    r.cause,
    r.external,
    r.given,
    r.weight,
    r.total,
    r.pool_amount::varchar as pool_amount,
    b.* exclude (key)
from line_upto t
left join charge_line l on l.key = t.key and t.rest_key is null
left join unit u on u.unit_id = l.unit_id
left join (
    select * from priced_unit qualify row_number() over (partition by kind_id order by start_us) = 1
) p on p.kind_id = l.kind_id
left join charge_run o on o.run_id = l.run_id
left join charge_rest r on r.key = t.rest_key
left join line_bucket b on b.key = t.key and t.rest_key is null
where t.key > $offset and t.key <= $offset + $limit
order by t.key;
