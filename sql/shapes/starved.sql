-- A row of pool_place is a node (or a GPU without one) of a pool and model, and its size in GPUs.
create or replace temp table pool_place as
select
    coalesce(node, gpu) as place,
    coalesce(model, '') as model,
    any_value(pool) as pool,
    count(distinct gpu) as size
from device
where cluster = $cluster
group by 1, 2;

-- A row of free_whole is a span of an hour in which so many whole GPUs of a node were free.
create or replace temp table free_whole as
select t.hour_us, t.place, p.model, p.pool, p.size, t.start_us, t.end_us, t.gpus
from stranding t
join pool_place p on p.place = t.place and p.model = coalesce(t.model, '')
where t.cluster = $cluster and t.hour_us >= $since_us and t.hour_us < $until_us
    and not t.partitioned and t.milli = 1000
    and exists (select 1 from room_wait);

-- A row of room_level is a wait and a span in which so many GPUs were free where it may lie, and places for so many members.
create or replace temp table room_level as
with step as (
    select
        w.wait,
        unnest([greatest(f.start_us, w.start_us), least(f.end_us, w.end_us)]) as at_us,
        unnest([f.gpus, -f.gpus]) as gpus,
        unnest([f.gpus // w.gpus, -(f.gpus // w.gpus)]) as copies
    from room_wait w
    join free_whole f
        on f.pool is not distinct from w.pool
        and f.start_us < w.end_us and f.end_us > w.start_us
        and coalesce(list_contains(w.models, f.model), w.models is null)
    where w.profile is null
),
level as (
    select
        wait,
        at_us as start_us,
        lead(at_us) over (partition by wait order by at_us) as end_us,
        sum(sum(gpus)) over (partition by wait order by at_us) as free_gpus,
        sum(sum(copies)) over (partition by wait order by at_us) as copies
    from step
    group by wait, at_us
)
select
    w.wait,
    w.job_id,
    w.pool,
    w.shape,
    w.members,
    w.gpus,
    w.models,
    l.start_us // 3600000000 * 3600000000 as hour_us,
    l.start_us,
    l.end_us,
    l.free_gpus,
    l.copies
from level l
join (select distinct on (wait) * from room_wait) w using (wait)
where l.end_us > l.start_us and l.free_gpus > 0;

-- A row of starved is a span in which a shape found no place although as many GPUs were free.
create or replace temp table starved as
select * from room_level where free_gpus >= members * gpus and copies < members;
