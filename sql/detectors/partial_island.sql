-- A row is a node and an hour in which small jobs held part of one of its NVLink islands while a request waited for a whole one.
-- Where nobody reported the links between GPUs, no island is known.
with island as (
    select
        d.device_id,
        coalesce(d.node, d.gpu) as node,
        e.parent as island,
        d.pool,
        d.model,
        count(*) over (partition by coalesce(d.node, d.gpu), e.parent) as size
    from device d
    join (
        select child, min(parent) as parent
        from topology_edge
        where cluster = $cluster and child_kind = 'gpu' and parent_kind = 'nvlink'
            and coalesce(valid_until_us > $since_us, true)
        group by child
    ) e
        on e.child = d.gpu
    where d.cluster = $cluster and d.gi < 0 and d.profile is null and d.kind is null
        and d.device_id not in (select parent_id from device where cluster = $cluster and gi >= 0)
        and exists (select 1 from room_level)
),
-- Spans of an hour in which a request waited for whole islands of such a size, and too few were free. Of several that waited at
-- once the one that waited longest in the hour counts.
waited as (
    select pool, models, gpus, hour_us, wait
    from room_level
    where hour_us >= $since_us and hour_us < $until_us
    group by pool, models, gpus, hour_us, wait
    qualify row_number() over (
        partition by pool, models, gpus, hour_us order by sum(end_us - start_us) desc, wait
    ) = 1
),
wanted as (
    select l.wait, l.job_id, l.pool, l.models, l.fit, l.class, l.gpus as size, l.hour_us, l.start_us, l.end_us
    from room_level l
    join waited w using (wait, hour_us)
),
part as (
    select
        i.node,
        i.island,
        i.size,
        i.pool,
        i.model,
        i.device_id,
        s.run_id,
        s.run_id is null and s.free_bucket = 'schedulable' as free,
        greatest(s.start_us, $since_us) as start_us,
        least(s.end_us, $until_us) as end_us
    from segment s
    join island i using (device_id)
    where s.cluster = $cluster and s.start_us < $until_us and s.end_us > $since_us
        and i.size >= 2
        and i.size in (select size from wanted)
),
run_size as (
    select run_id, count(distinct device_id) as gpus
    from segment
    where cluster = $cluster and run_id in (select run_id from part where run_id is not null)
    group by run_id
),
edge as (
    select node, island, start_us as at_us from part
    union
    select node, island, end_us from part
),
span as (
    select node, island, at_us as start_us, lead(at_us) over (partition by node, island order by at_us) as end_us
    from edge
),
state as (
    select
        p.node,
        p.island,
        any_value(p.size) as size,
        any_value(p.pool) as pool,
        any_value(p.model) as model,
        e.start_us,
        e.end_us,
        list(distinct p.device_id) filter (where p.free) as free_ids,
        count(distinct p.device_id) filter (where p.run_id is not null) as used,
        max(z.gpus) as largest,
        min(r.start_us) as held_us,
        string_agg(distinct r.job_id, ', ' order by r.job_id) as jobs
    from span e
    join part p on p.node = e.node and p.island = e.island and p.start_us <= e.start_us and p.end_us >= e.end_us
    left join run_size z using (run_id)
    left join run r on r.run_id = p.run_id and r.cluster = $cluster
    where e.end_us > e.start_us
    group by p.node, p.island, e.start_us, e.end_us
),
-- All of the island is in service, some of it is free, and none who holds of it has half of it.
partly as (
    select *
    from state
    where used > 0 and used + len(free_ids) = size and used < size and largest * 2 < size
),
met as (
    select
        p.node,
        p.island,
        p.size,
        p.free_ids,
        p.used,
        p.jobs,
        w.wait,
        w.job_id,
        w.hour_us,
        greatest(p.start_us, w.start_us, p.held_us + $held_us_min) as start_us,
        least(p.end_us, w.end_us) as end_us
    from partly p
    join wanted w
        on w.size = p.size and w.pool is not distinct from p.pool
        and p.start_us < w.end_us and p.end_us > w.start_us
        and coalesce(list_contains(w.models, p.model), w.models is null)
    where greatest(p.start_us, w.start_us, p.held_us + $held_us_min) < least(p.end_us, w.end_us)
        and (w.fit is null or (w.fit, p.node) in (select (fit, place) from room_fit))
        and (w.class, w.hour_us, p.node) not in (select (class, hour_us, place) from room_part)
),
-- Of several who waited at once one counts.
worst as (
    select node, island, hour_us, wait
    from met
    group by node, island, hour_us, wait
    qualify row_number() over (
        partition by node, island, hour_us order by sum(end_us - start_us) desc, wait
    ) = 1
),
kept as (
    select m.*
    from met m
    join worst using (node, island, hour_us, wait)
),
claimed as (
    select
        k.node,
        k.hour_us,
        u.device_id,
        sum(k.end_us - k.start_us)::bigint as us
    from kept k, unnest(k.free_ids) as u(device_id)
    group by all
)
select
    'node' as subject_kind,
    k.node as subject_id,
    k.node as subject_name,
    min(k.start_us) as start_us,
    max(k.end_us) as end_us,
    (select list(device_id order by device_id) from claimed c where c.node = k.node and c.hour_us = k.hour_us) as device_ids,
    [k.node] as nodes,
    map {
        'island_gpus': max(k.size)::double,
        'used_gpus': max(k.used)::double,
        'free_gpus': max(len(k.free_ids))::double,
        'pending_minutes': sum(k.end_us - k.start_us) / 6e7
    } as numbers,
    map {'jobs': max_by(k.jobs, (k.end_us, k.job_id, k.jobs)), 'waiting_job': max_by(k.job_id, (k.end_us, k.job_id))} as words,
    coalesce((
        select list({
            'device_id': c.device_id,
            'run_id': null::bigint,
            'hour_us': c.hour_us,
            'bucket': 'stranded',
            'us': c.us
        })
        from claimed c
        where c.node = k.node and c.hour_us = k.hour_us
    ), []) as claims
from kept k
group by k.node, k.hour_us
order by k.node, k.hour_us;
