-- A row of held_share is a run that holds shares of a device (Slurm's shards, MPS), and how many: those on several devices of a
-- node are spread evenly. `sure`: how many shares the device has is known.
create or replace temp table held_share as
with held as (
    select distinct h.run_id, h.device_id, w.node, w.shares, w.replicas is not null as sure, d.gpu_index
    from hold h
    join new_device d using (device_id)
    join wanted w on w.run_id = h.run_id and w.shares is not null and coalesce(w.node = d.node, true)
),
numbered as (
    select
        *,
        count(*) over (partition by run_id, node) as devices,
        row_number() over (partition by run_id, node order by gpu_index, device_id) as place
    from held
)
select
    run_id,
    device_id,
    greatest(max(shares // devices + case when place <= shares % devices then 1 else 0 end), 1)::bigint as shares,
    bool_and(sure) as sure
from numbered
group by run_id, device_id;

-- A row of share_count is a node of Slurm's on which a GPU has so many shares: who holds it whole holds all of them.
create or replace temp table share_count as
select node, replicas
from site
where replicas > 1
    and node in (select node from node_record where scheduler = 'slurm')
    and node not in (select node from node_record where scheduler = 'kubernetes');

-- A row of placed_hold is a hold cut to what the fleet owned of its device.
create or replace temp table placed_hold as
select
    h.run_id,
    h.device_id,
    h.pod_uid,
    h.declared,
    h.estimated or not coalesce(k.sure, true) as estimated,
    case when f.shared then 10000 else coalesce(f.units, 10000) end as units,
    coalesce(k.shares, r.replicas, 1) as parts,
    k.shares is not null as shares,
    h.start_us as held_us,
    greatest(h.start_us, c.start_us) as start_us,
    least(h.end_us, c.end_us) as end_us
from hold h
left join fraction_unit f on f.run_id = h.run_id and f.pod_uid is not distinct from h.pod_uid
left join held_share k on k.run_id = h.run_id and k.device_id = h.device_id
left join new_device d on d.device_id = h.device_id
left join share_count r on r.node = d.node
join capacity_span c
    on c.device_id = h.device_id and not c.remainder and h.start_us < c.end_us and h.end_us > c.start_us;

-- A row of placed_inner is what an inner run holds of what its outer run holds, cut alike.
create or replace temp table placed_inner as
select
    h.* replace (greatest(h.start_us, c.start_us) as start_us, least(h.end_us, c.end_us) as end_us)
from inner_hold h
join capacity_span c
    on c.device_id = h.device_id and not c.remainder and h.start_us < c.end_us and h.end_us > c.start_us;

-- A row of device_outage is an outage of the node that a device was on; to_us is NULL while it lasts.
create or replace temp table device_outage as
with place as (
    select device_id, node, null::bigint as from_us, null::bigint as to_us
    from new_device
    where gpu not in (select gpu from stay)
    union all
    select d.device_id, t.node, t.from_us, t.to_us
    from new_device d
    join slot_turn t on t.gpu = d.gpu and t.moved
)
select p.device_id, greatest(o.from_us, p.from_us) as from_us, least(o.to_us, p.to_us) as to_us
from outage o
join place p using (node)
where o.from_us < coalesce(p.to_us, o.from_us + 1) and coalesce(o.to_us > p.from_us, true);

-- A row of silent is a span in which a device gave no samples while its cluster did: after the last of a vanished device,
-- and after the last of a slice until another layout takes its place. Up to three intervals do not count as silence:
-- the newest sample may still arrive.
create or replace temp table silent as
select n.device_id, n.last_us + n.last_interval_us // 2 as start_us, o.end_us
from seen n
join owned_gpu o using (gpu)
where n.gi = -1
    and o.end_us > n.last_us + 3 * n.last_interval_us
    and not exists (
        select 1 from seen slice where slice.gpu = n.gpu and slice.gi >= 0 and slice.last_us > n.last_us
    )
union all
select l.device_id, l.last_us + n.last_interval_us // 2, l.end_us
from slice_life l
join seen n using (device_id)
where l.end_us > l.last_us + 3 * n.last_interval_us;

delete from silent where end_us <= start_us;

create or replace temp table elementary as
with edge as (
    select device_id, start_us as at_us from capacity_span where not remainder
    union
    select device_id, end_us from capacity_span where not remainder
    union
    select device_id, start_us from placed_hold
    union
    select device_id, end_us from placed_hold
    union
    select device_id, start_us from placed_inner
    union
    select device_id, end_us from placed_inner
    union
    select device_id, start_us from silent
    union
    select device_id, end_us from silent
    union
    select device_id, from_us from device_outage
    union
    select device_id, to_us from device_outage where to_us is not null
    union
    -- Process use is stored per hour, so that a late sample changes the shares of one.
    select device_id, unnest([hour_us, hour_us + 3600000000])
    from process_use
    where cluster = $cluster and units is not null
),
span as (
    select device_id, at_us as start_us, lead(at_us) over (partition by device_id order by at_us) as end_us
    from edge
)
select s.device_id, s.start_us, s.end_us, c.share_num, c.share_den, c.profile, c.method
from span s
join capacity_span c
    on c.device_id = s.device_id and not c.remainder and s.start_us >= c.start_us and s.end_us <= c.end_us;

-- A row of span_hold is an elementary span and a hold that covers it. They are joined by the day: a device has thousands of both.
create or replace temp table span_hold as
with hold_day as (
    select *, unnest(range(start_us // 86400000000, (end_us - 1) // 86400000000 + 1)) as day
    from placed_hold
    where end_us > start_us
)
select e.device_id, e.start_us, h.* exclude (device_id, start_us, end_us, day)
from elementary e
join hold_day h
    on h.device_id = e.device_id and h.day = e.start_us // 86400000000
    and h.start_us <= e.start_us and h.end_us >= e.end_us;

-- A row of holder is an elementary span and one of its owners: declared owners before observed ones. holds: how many pods of the
-- run hold the device, each an equal part of the run's.
create or replace temp table holder as
with present as (
    select
        device_id,
        start_us,
        run_id,
        declared,
        count(*) as holds,
        sum(parts)::bigint as parts,
        bool_or(shares) as by_shares,
        sum(units)::bigint as units,
        max(held_us) as held_us,
        bool_or(estimated) as estimated
    from span_hold
    group by all
),
first_choice as (
    select device_id, start_us, bool_or(declared) as declared
    from present
    group by all
),
chosen as (
    select p.*
    from present p
    join first_choice f using (device_id, start_us, declared)
),
-- A device is shared where its node says so, where samples of one instant name several owners, or where pods were given
-- it by a resource claim.
shared_span as (
    select e.device_id, e.start_us, false as drawn
    from elementary e
    join owner_span o
        on o.device_id = e.device_id and o.shared
        and o.first_us - $label_lag_us < e.end_us and o.last_us + $label_lag_us > e.start_us
    group by all
    union
    select e.device_id, e.start_us, false
    from elementary e
    join new_device d using (device_id)
    join site s on s.node = d.node
    where s.sharing in ('time-slicing', 'mps')
    union
    select device_id, start_us, true
    from span_hold
    where (run_id, coalesce(pod_uid, '')) in (
            select (run_id, coalesce(pod_uid, '')) from wanted where drawn
        )
    group by all
    having count(*) > 1
    union
    select device_id, start_us, false
    from span_hold
    where shares
    group by all
),
shared_once as (
    select device_id, start_us, bool_or(drawn) as drawn
    from shared_span
    group by all
),
-- Under MPS a pod has one of R replicas; the others are free. Time slices and Slurm's shards are divided among those bound.
replica as (
    select d.device_id, s.replicas
    from new_device d
    join site s on s.node = d.node
    where s.sharing = 'mps' and s.replicas > 1
),
counted as (
    select
        c.* exclude (by_shares),
        r.replicas,
        s.drawn,
        greatest(sum(parts) over (partition by c.device_id, c.start_us), r.replicas) as all_parts,
        count(*) over (partition by c.device_id, c.start_us) as owners,
        -- A device held only in fractions is shared as requested; the unrequested rest is free.
        greatest(sum(units) over (partition by c.device_id, c.start_us), 10000) as all_units,
        bool_and(units < 10000 * holds) over (partition by c.device_id, c.start_us) as fractional,
        bool_or(by_shares) over (partition by c.device_id, c.start_us) as by_shares,
        row_number() over (partition by c.device_id, c.start_us order by held_us desc, run_id) as newest,
        s.device_id is not null as shared
    from chosen c
    left join shared_once s on s.device_id = c.device_id and s.start_us = c.start_us
    left join replica r on r.device_id = c.device_id
)
select
    device_id,
    start_us,
    run_id,
    case when shared and parts < all_parts then parts when fractional and not shared then units else 1 end::bigint as parts,
    case when shared and parts < all_parts then all_parts when fractional and not shared then all_units else 1 end::bigint
        as all_parts,
    estimated,
    owners > 1 and not shared and (not fractional or all_units > 10000) as conflict,
    case
        when shared and parts = all_parts then null
        when shared and drawn then 'claim'
        when shared and replicas is not null then 'replica'
        when shared and by_shares then 'share'
        when shared then 'bound'
        when fractional then 'fraction'
    end as split,
    0 as level,
    case when shared or fractional then holds else 1 end as holds
from counted
where shared or fractional or newest = 1;

-- A row of free_part is an elementary span and the part of it that its holders leave free.
create or replace temp table free_part as
select
    device_id,
    start_us,
    any_value(all_parts) as all_parts,
    sum(parts)::bigint as bound,
    any_value(split) as split
from holder
group by all
having any_value(all_parts) > sum(parts);
