-- A row of live_hold is a hold that reaches into the time in which the segments of its device are computed.
create or replace temp table live_hold as
select h.*
from placed_hold h
join recomputed r on r.device_id = h.device_id and h.end_us >= r.from_us;

-- A row of elementary is a span of a device in which nothing begins or ends, from where its segments are computed.
create or replace temp table elementary as
with every_edge as (
    select device_id, start_us as at_us from capacity_span where not remainder
    union
    select device_id, end_us from capacity_span where not remainder
    union
    select device_id, start_us from live_hold
    union
    select device_id, end_us from live_hold
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
edge as (
    select e.* from every_edge e join recomputed r on r.device_id = e.device_id and e.at_us >= r.from_us
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
    from live_hold
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
        -- Who holds it exactly goes before whoever is only placed on it, then the newest.
        row_number() over (partition by c.device_id, c.start_us order by estimated, held_us desc, run_id) as newest,
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
