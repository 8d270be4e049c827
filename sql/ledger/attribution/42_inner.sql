-- A row of inner_share is an inner run that holds shares of a device (Slurm's shards, MPS) of its outer run, and how many: those on
-- several devices are spread evenly. all_shares: how many an MPS device has.
create or replace temp table inner_share as
with asked as (
    select
        w.run_id,
        n.outer_run_id,
        n.outer_pod_uid,
        sum(w.shares)::bigint as shares,
        max(s.replicas) filter (where s.sharing = 'mps') as all_shares
    from wanted w
    join nested n on n.run_id = w.run_id and n.node = w.node
    left join share_site s on s.node = w.node
    where w.shares is not null
    group by all
),
numbered as (
    select
        p.device_id,
        a.*,
        count(*) over held as devices,
        row_number() over (held order by p.device_id) as place
    from (select distinct run_id, outer_run_id, outer_pod_uid, device_id from placed_inner) p
    join asked a
        on a.run_id = p.run_id and a.outer_run_id = p.outer_run_id
        and a.outer_pod_uid is not distinct from p.outer_pod_uid
    window held as (partition by a.run_id, a.outer_run_id, a.outer_pod_uid)
)
select
    run_id,
    outer_run_id,
    outer_pod_uid,
    device_id,
    greatest(shares // devices + case when place <= shares % devices then 1 else 0 end, 1) as shares,
    all_shares
from numbered;

-- Replaces an outer run with its inner runs: a row of holder whose run contains inner runs is divided among them, and the
-- rest stays its own. Run once for each level.
create or replace temp table taken as
select
    h.device_id,
    h.start_us,
    h.run_id as outer_run_id,
    any_value(h.parts) as outer_parts,
    any_value(h.all_parts) as all_parts,
    any_value(h.holds) as outer_holds,
    any_value(h.conflict) as conflict,
    any_value(h.split) as split,
    bool_or(h.estimated) as outer_estimated,
    i.run_id,
    sum(i.units)::bigint as units,
    sum(s.shares)::bigint as shares,
    max(s.all_shares)::bigint as mps_shares,
    bool_or(i.estimated) as estimated,
    count(distinct coalesce(i.outer_pod_uid, '')) as pods
from holder h
join elementary e using (device_id, start_us)
join placed_inner i
    on i.device_id = h.device_id and i.outer_run_id = h.run_id
    and i.start_us <= e.start_us and i.end_us >= e.end_us
left join inner_share s
    on s.run_id = i.run_id and s.device_id = i.device_id and s.outer_run_id = i.outer_run_id
    and s.outer_pod_uid is not distinct from i.outer_pod_uid
where h.level = $level
group by h.device_id, h.start_us, h.run_id, i.run_id;

-- Shards divide a device among those that hold some; under MPS each has its part of all shares, and the rest is the outer run's.
create or replace temp table scaled as
select
    * exclude (units),
    case when shares is null then units * scale else 10000 * shares end as units
from (
    select
        *,
        greatest(sum(shares) over outer_hold, max(mps_shares) over outer_hold, 1)::bigint as scale
    from taken
    window outer_hold as (partition by device_id, start_us, outer_run_id)
);

create or replace temp table taken_whole as
select
    *,
    sum(units) over outer_hold as inner_units,
    -- A device that several pods of the outer run share is held for each of them.
    greatest(sum(units) over outer_hold, 10000 * outer_holds * scale) as all_units
from scaled
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
        case when shares is not null then case when mps_shares is null then 'share' else 'replica' end end as way,
        $level + 1 as level,
        pods as holds
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
        null,
        -1,
        any_value(outer_holds)
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
    coalesce(
        any_value(split),
        case
            when sum(r.parts * (w.all_parts // r.all_parts)) < any_value(w.all_parts) then coalesce(any_value(way), 'fraction')
        end
    ) as split,
    max(level) as level,
    sum(holds)::bigint as holds
from reduced r
join whole w using (device_id, start_us, run_id)
group by device_id, start_us, run_id;

delete from holder
where level = $level
    and (device_id, start_us, run_id) in (select (device_id, start_us, outer_run_id) from taken_whole);
