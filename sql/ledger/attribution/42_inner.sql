-- Replaces an outer run with its inner runs: a row of holder whose run contains inner runs is divided among them, and the
-- rest stays its own. Run once for each level.
create or replace temp table taken as
select
    h.device_id,
    h.start_us,
    h.run_id as outer_run_id,
    any_value(h.parts) as outer_parts,
    any_value(h.all_parts) as all_parts,
    any_value(h.conflict) as conflict,
    any_value(h.split) as split,
    bool_or(h.estimated) as outer_estimated,
    i.run_id,
    sum(i.units)::bigint as units,
    bool_or(i.estimated) as estimated,
    count(distinct coalesce(i.outer_pod_uid, '')) as pods
from holder h
join elementary e using (device_id, start_us)
join placed_inner i
    on i.device_id = h.device_id and i.outer_run_id = h.run_id
    and i.start_us <= e.start_us and i.end_us >= e.end_us
where h.level = $level
group by h.device_id, h.start_us, h.run_id, i.run_id;

create or replace temp table taken_whole as
select
    *,
    sum(units) over outer_hold as inner_units,
    -- A device that several pods of the outer run share is held for each of them.
    greatest(sum(units) over outer_hold, 10000 * outer_parts) as all_units
from taken
window outer_hold as (partition by device_id, start_us, outer_run_id);

insert into holder by name
with divided as (
    select
        device_id,
        start_us,
        run_id,
        outer_parts * units as parts,
        all_parts * all_units as all_parts,
        estimated or outer_estimated as estimated,
        conflict,
        split,
        $level + 1 as level
    from taken_whole
    union all
    select
        device_id,
        start_us,
        outer_run_id,
        any_value(outer_parts * (all_units - inner_units)),
        any_value(all_parts * all_units),
        any_value(outer_estimated) or bool_or(estimated),
        any_value(conflict),
        any_value(split),
        -1
    from taken_whole
    group by device_id, start_us, outer_run_id
    having any_value(all_units) > any_value(inner_units)
),
reduced as (
    select * replace (parts // gcd(parts, all_parts) as parts, all_parts // gcd(parts, all_parts) as all_parts)
    from divided
),
-- One run may be inside two runs that share a device.
whole as (
    select
        device_id,
        start_us,
        run_id,
        list_reduce(list(all_parts), lambda a, b: lcm(a, b)) as all_parts
    from reduced
    group by device_id, start_us, run_id
)
select
    device_id,
    start_us,
    run_id,
    sum(r.parts * (w.all_parts // r.all_parts))::bigint as parts,
    any_value(w.all_parts)::bigint as all_parts,
    bool_or(estimated) as estimated,
    bool_or(conflict) as conflict,
    coalesce(any_value(split), case when sum(r.parts * (w.all_parts // r.all_parts)) < any_value(w.all_parts) then 'fraction' end)
        as split,
    max(level) as level
from reduced r
join whole w using (device_id, start_us, run_id)
group by device_id, start_us, run_id;

delete from holder
where level = $level
    and (device_id, start_us, run_id) in (select (device_id, start_us, outer_run_id) from taken_whole);
