-- A row is a device that a run held, on a kind of place that some request could take.
select
    row_number() over (order by t.run_id, t.device_id) as number,
    t.run_id as run,
    d.node,
    p.place,
    t.start_us,
    t.end_us
from replay_taken t
join device d on d.cluster = $cluster and d.device_id = t.device_id
join (select distinct place, model, pool, profile from replay_place) p
    on p.model = coalesce(d.model, '') and p.pool = coalesce(d.pool, '') and p.profile = coalesce(d.profile, '')
order by t.run_id, t.device_id
limit $limit;
