-- A row is an idle run of a device on a kind of place that some request could take while it waits.
select
    i.number,
    d.node,
    p.place,
    i.start_us,
    i.end_us
from replay_idle i
join device d on d.cluster = $cluster and d.device_id = i.device_id
join (select distinct place, model, pool, profile from replay_place) p
    on p.model = coalesce(d.model, '') and p.pool = coalesce(d.pool, '') and p.profile = coalesce(d.profile, '')
where i.sure and not i.left_alone
    and exists (
        select 1
        from replay_request r
        join replay_place q on q.kind = r.kind and q.place = p.place
        where r.start_us < i.end_us and r.end_us > i.start_us
    )
order by i.start_us, i.number
limit $limit;
