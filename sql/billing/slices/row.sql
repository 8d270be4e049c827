-- A row is a published slice_hold with its words.
select
    p.key,
    p.slice,
    case when d.measured then d.gpu end as gpu,
    case when d.measured then d.gi end as gi,
    p.cluster,
    d.node,
    p.profile,
    d.model as gpu_model,
    d.parent_id,
    d.measured,
    p.layout_us,
    p.owner as team,
    r.user_name as user,
    r.job_id as job,
    p.start_us,
    p.end_us,
    p.share_num,
    p.share_den,
    p.method,
    p.split,
    p.device_us::varchar as device_us,
    p.micros::varchar as micros,
    case when not p.lacks then p.cents::varchar end as cents,
    p.currency
from slice_page p
join device d on d.device_id = p.device_id and d.cluster = p.cluster
left join run r on r.run_id = p.run_id and r.cluster = p.cluster
order by p.key;
