-- A row of placed_hold is a hold cut to what the fleet owned of its device.
create or replace temp table placed_hold as
select
    h.run_id,
    h.device_id,
    h.pod_uid,
    h.declared,
    h.estimated,
    coalesce(f.units, 10000) as units,
    h.start_us as held_us,
    greatest(h.start_us, c.start_us) as start_us,
    least(h.end_us, c.end_us) as end_us
from hold h
left join fraction_unit f on f.run_id = h.run_id and f.pod_uid is not distinct from h.pod_uid
join capacity_span c
    on c.device_id = h.device_id and not c.remainder and h.start_us < c.end_us and h.end_us > c.start_us;

-- A row of placed_inner is what an inner run holds of what its outer run holds, cut alike.
create or replace temp table placed_inner as
select
    h.* replace (greatest(h.start_us, c.start_us) as start_us, least(h.end_us, c.end_us) as end_us)
from inner_hold h
join capacity_span c
    on c.device_id = h.device_id and not c.remainder and h.start_us < c.end_us and h.end_us > c.start_us;

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
    select d.device_id, o.from_us from outage o join new_device d using (node)
    union
    select d.device_id, o.to_us from outage o join new_device d using (node) where o.to_us is not null
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

-- A row of holder is an elementary span and one of its owners: declared owners before observed ones.
create or replace temp table holder as
with present as (
    select
        e.device_id,
        e.start_us,
        h.run_id,
        h.declared,
        count(*) as parts,
        sum(h.units)::bigint as units,
        max(h.held_us) as held_us,
        bool_or(h.estimated) as estimated
    from elementary e
    join placed_hold h
        on h.device_id = e.device_id and h.start_us <= e.start_us and h.end_us >= e.end_us
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
    select e.device_id, e.start_us, true
    from elementary e
    join placed_hold h
        on h.device_id = e.device_id and h.start_us <= e.start_us and h.end_us >= e.end_us
    where (h.run_id, coalesce(h.pod_uid, '')) in (
            select (run_id, coalesce(pod_uid, '')) from wanted where drawn
        )
    group by all
    having count(*) > 1
),
shared_once as (
    select device_id, start_us, bool_or(drawn) as drawn
    from shared_span
    group by all
),
-- Under MPS a pod has one of R replicas; the others are free. Time slices are divided among those bound.
replica as (
    select d.device_id, s.replicas
    from new_device d
    join site s on s.node = d.node
    where s.sharing = 'mps' and s.replicas > 1
),
counted as (
    select
        c.*,
        r.replicas,
        s.drawn,
        greatest(sum(parts) over (partition by c.device_id, c.start_us), r.replicas) as all_parts,
        count(*) over (partition by c.device_id, c.start_us) as owners,
        -- A device held only in fractions is shared as requested; the unrequested rest is free.
        greatest(sum(units) over (partition by c.device_id, c.start_us), 10000) as all_units,
        bool_and(units < 10000 * parts) over (partition by c.device_id, c.start_us) as fractional,
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
    case when shared then parts when fractional then units else 1 end::bigint as parts,
    case when shared then all_parts when fractional then all_units else 1 end::bigint as all_parts,
    estimated,
    owners > 1 and not shared and (not fractional or all_units > 10000) as conflict,
    case
        when shared and parts = all_parts then null
        when shared and drawn then 'claim'
        when shared and replicas is not null then 'replica'
        when shared then 'bound'
        when fractional then 'fraction'
    end as split,
    0 as level
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
