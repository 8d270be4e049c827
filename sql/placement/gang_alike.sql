-- A row is a gang and a whole GPU of its model, in its pools, at the instant it held all of its GPUs: whether it could be
-- had. Where it is only estimated which GPUs of a node somebody held, none of its GPUs is known to have been free.
with moment as (
    select distinct cluster, at_us from near_gang
),
standing as (
    select m.at_us, d.gpu, d.node, d.model, d.pool, d.gi, d.measured, s.estimated,
        s.run_id is null and s.free_bucket = 'schedulable' and s.share_num = s.share_den as free
    from moment m
    join segment s on s.cluster = m.cluster and s.start_us <= m.at_us and s.end_us > m.at_us
    join device d on d.cluster = s.cluster and d.device_id = s.device_id
),
guessed as (
    select distinct at_us, coalesce(node, gpu) as place from standing where estimated
),
alike as (
    select s.at_us, s.gpu, s.model, coalesce(s.pool, '') as pool, bool_and(s.free and g.place is null) as free
    from standing s
    left join guessed g on g.at_us = s.at_us and g.place = coalesce(s.node, s.gpu)
    where s.gi < 0 and s.measured
    group by all
)
select g.run_id, list(a.gpu order by a.gpu) as gpus, list(a.gpu order by a.gpu) filter (where a.free) as free
from near_gang g
join alike a on a.at_us = g.at_us and a.model = g.model and list_contains(g.pools, a.pool)
group by g.run_id
order by g.run_id;
