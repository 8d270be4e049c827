-- A row of pool_place is a node (or a GPU without one) of a pool and model, and its size in GPUs.
create or replace temp table pool_place as
select
    coalesce(node, gpu) as place,
    coalesce(model, '') as model,
    any_value(pool) as pool,
    count(distinct gpu) as size
from device
where cluster = $cluster and (gi >= 0 or profile is null) and kind is null
group by 1, 2;

-- A row of free_whole is a span of an hour in which so many whole GPUs of a node were free.
create or replace temp table free_whole as
select t.hour_us, t.place, p.model, p.pool, p.size, t.start_us, t.end_us, t.gpus
from stranding t
join pool_place p on p.place = t.place and p.model = coalesce(t.model, '')
where t.cluster = $cluster and t.hour_us >= $since_us and t.hour_us < $until_us
    and not t.partitioned and t.milli = 1000
    and exists (select 1 from room_wait);

-- A row of place_class is what one member of a request needs: places of some pools with so many GPUs, CPUs and memory.
create or replace temp table place_class as
select row_number() over () as class, *
from (select distinct pools, fit, models, gpus, cpu_milli, memory_bytes from room_wait where profile is null);

-- A row of room_need is a shape that a request waits for in some pools, once.
create or replace temp table room_need as
select row_number() over () as need, *
from (
    select distinct c.class, w.members, w.gpus
    from room_wait w
    join place_class c
        on c.pools = w.pools and c.fit is not distinct from w.fit and c.models is not distinct from w.models
        and c.gpus = w.gpus and c.cpu_milli is not distinct from w.cpu_milli
        and c.memory_bytes is not distinct from w.memory_bytes
    where w.profile is null
);

-- A row of free_room is a row of free_whole, or a part of it, with the CPUs and memory that were free beside the GPUs (node_room).
create or replace temp table free_room as
select f.* replace (greatest(f.start_us, r.start_us) as start_us, least(f.end_us, r.end_us) as end_us), r.cpu_milli, r.memory_bytes
from free_whole f
left join node_room r
    on r.place = f.place and r.hour_us = f.hour_us and r.start_us < f.end_us and r.end_us > f.start_us
where exists (select 1 from place_class where coalesce(cpu_milli, memory_bytes) is not null);

-- A row of class_free is a span in which so many GPUs of a node were free for a member of a class, with room for so many members. Of
-- GPUs whose node lacks CPUs or memory (all_gpus), only as many count as the rest is enough for, each with its part of the member's.
create or replace temp table class_free as
select c.class, f.hour_us, f.place, f.pool, f.start_us, f.end_us, f.gpus as all_gpus, f.gpus, f.gpus // c.gpus as copies
from place_class c
join free_whole f
    on list_contains(c.pools, coalesce(f.pool, ''))
    and coalesce(list_contains(c.models, f.model), c.models is null)
where coalesce(c.cpu_milli, c.memory_bytes) is null
    and (c.fit is null or (c.fit, f.place) in (select (fit, place) from room_fit))
union all
select
    c.class,
    f.hour_us,
    f.place,
    f.pool,
    f.start_us,
    f.end_us,
    f.gpus,
    least(f.gpus, f.cpu_milli * c.gpus // c.cpu_milli, f.memory_bytes::hugeint * c.gpus // c.memory_bytes)::bigint,
    least(f.gpus // c.gpus, f.cpu_milli // c.cpu_milli, f.memory_bytes // c.memory_bytes)
from place_class c
join free_room f
    on list_contains(c.pools, coalesce(f.pool, ''))
    and coalesce(list_contains(c.models, f.model), c.models is null)
where coalesce(c.cpu_milli, c.memory_bytes) is not null
    and (c.fit is null or (c.fit, f.place) in (select (fit, place) from room_fit));

-- A row of room_part is a node in an hour whose CPUs or memory were not enough for all its free GPUs, and the part of these, by time,
-- for which they were.
create or replace temp table room_part as
select
    class,
    hour_us,
    place,
    (sum(gpus * (end_us - start_us)::hugeint) / sum(all_gpus * (end_us - start_us)::hugeint))::double as part
from class_free
group by class, hour_us, place
having sum(gpus * (end_us - start_us)::hugeint) < sum(all_gpus * (end_us - start_us)::hugeint);

-- A row of room_short is a span of an hour in which some GPUs were free for a shape in its pools, and fewer places than it has
-- members. enough: as many GPUs as it wants.
create or replace temp table room_short as
with step as (
    select
        class,
        unnest([start_us, end_us]) as at_us,
        unnest([gpus, -gpus]) as gpus,
        unnest([copies, -copies]) as copies
    from class_free
),
level as (
    select
        class,
        at_us as start_us,
        lead(at_us) over (partition by class order by at_us) as end_us,
        sum(sum(gpus)) over (partition by class order by at_us) as free_gpus,
        sum(sum(copies)) over (partition by class order by at_us) as copies
    from step
    group by class, at_us
),
short as (
    select
        n.need,
        n.class,
        l.start_us // 3600000000 * 3600000000 as hour_us,
        l.start_us,
        l.end_us,
        l.free_gpus,
        l.free_gpus >= n.members * n.gpus as enough
    from room_need n
    join level l on l.class = n.class
    where l.end_us > l.start_us and l.free_gpus > 0 and l.copies < n.members
),
linked as (
    select
        *,
        start_us is distinct from lag(end_us) over (partition by need, hour_us, enough order by start_us) as begins
    from short
),
numbered as (
    select *, count(case when begins then 1 end) over (partition by need, hour_us, enough order by start_us) as turn
    from linked
)
select
    need,
    any_value(class) as class,
    hour_us,
    enough,
    min(start_us) as start_us,
    max(end_us) as end_us,
    sum(free_gpus * (end_us - start_us)) / sum(end_us - start_us) as free_gpus
from numbered
group by need, hour_us, enough, turn;

-- A row of pool_free is a shape's span of room_short and one of its pools: how many of the free GPUs were there.
create or replace temp table pool_free as
select
    s.need,
    s.start_us,
    s.end_us,
    f.pool,
    sum(f.gpus * (least(s.end_us, f.end_us) - greatest(s.start_us, f.start_us))) / (s.end_us - s.start_us) as own_gpus
from room_short s
join class_free f
    on f.class = s.class and f.hour_us = s.hour_us and f.start_us < s.end_us and f.end_us > s.start_us and f.gpus > 0
group by s.need, s.start_us, s.end_us, f.pool;

-- A row of room_level is a wait, such a span within it and a pool with some of the free GPUs. free_gpus: in all pools that it may
-- use; own_gpus: in this one.
-- Nodes that lack GPUs have fewer free than one member wants: where the scheduler found another reason for the others, no more
-- than that was free for it.
create or replace temp table room_level as
select
    w.wait,
    w.job_id,
    w.submit_us,
    p.pool,
    w.shape,
    w.members,
    w.gpus,
    w.models,
    w.fit,
    w.unknown,
    c.class,
    s.hour_us,
    s.enough and coalesce(w.nodes_max * (w.gpus - 1) >= w.members * w.gpus, true) as enough,
    s.free_gpus,
    p.own_gpus,
    greatest(s.start_us, w.start_us) as start_us,
    least(s.end_us, w.end_us) as end_us
from room_wait w
join place_class c
    on c.pools = w.pools and c.fit is not distinct from w.fit and c.models is not distinct from w.models
    and c.gpus = w.gpus and c.cpu_milli is not distinct from w.cpu_milli and c.memory_bytes is not distinct from w.memory_bytes
join room_need n on n.class = c.class and n.members = w.members and n.gpus = w.gpus
join room_short s on s.need = n.need and s.start_us < w.end_us and s.end_us > w.start_us
join pool_free p on p.need = s.need and p.start_us = s.start_us and p.end_us = s.end_us
where w.profile is null;

-- A row of starved is a span in which a shape found no place although as many GPUs were free.
create or replace temp table starved as
select * from room_level where enough;

drop table pool_free;

drop table room_short;

drop table room_need;

drop table class_free;

drop table free_room;
