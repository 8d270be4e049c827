-- A row of input_day is a GPU and a day, and a digest of all that the segments of its devices in that day follow from: what is
-- cut there to the day. Day -1 has what holds at all times.
create or replace temp table input_day as
with drawn as (
    select distinct run_id, coalesce(pod_uid, '') as pod_uid from wanted where drawn
),
owned as (
    select device_id, min(start_us) as start_us, max(end_us) as end_us from capacity_span group by device_id
),
input as (
    select device_id, start_us, end_us, hash('capacity', share_num, share_den, profile, method, remainder) as content
    from capacity_span
    union all
    select
        h.device_id,
        h.start_us,
        h.end_us,
        hash(
            'hold', h.run_id, h.pod_uid, h.declared, h.estimated, h.units, h.parts, h.shares, h.held_us, w.run_id is not null
        )
    from placed_hold h
    left join drawn w on w.run_id = h.run_id and w.pod_uid = coalesce(h.pod_uid, '')
    union all
    select device_id, start_us, end_us, hash('silent') from silent
    union all
    select device_id, first_us - $label_lag_us, last_us + $label_lag_us, hash('shared') from owner_span where shared
    union all
    select
        o.device_id,
        greatest(o.from_us, f.start_us),
        least(coalesce(o.to_us, f.end_us), f.end_us),
        hash('out')
    from device_outage o
    join owned f on f.device_id = o.device_id and o.from_us < f.end_us and coalesce(o.to_us, f.end_us) > f.start_us
),
by_day as (
    -- A span without length has its instant.
    select
        *,
        unnest(
            range(least(start_us, end_us) // 86400000000, greatest(start_us, end_us - 1) // 86400000000 + 1)
        ) as day
    from input
),
digested as (
    select
        device_id,
        day,
        hash(
            device_id,
            content,
            greatest(start_us, day * 86400000000),
            least(end_us, day * 86400000000 + 86400000000)
        ) as digest
    from by_day
    union all
    select d.device_id, -1, hash(d.device_id, d.node, s.sharing, s.replicas, $derivation, $unknown)
    from new_device d
    left join site s on s.node = d.node
)
select d.parent_id, g.day, sum(g.digest::hugeint) as digest
from digested g
join new_device d using (device_id)
group by d.parent_id, g.day;

-- A row of other_day is a GPU and a day whose digest is not that of the last attribution.
create or replace temp table other_day as
select
    coalesce(n.parent_id, o.parent_id) as parent_id,
    coalesce(n.day, o.day) as day,
    n.digest
from input_day n
full join (select * from attributed_day where cluster = $cluster) o on o.parent_id = n.parent_id and o.day = n.day
where n.digest is distinct from o.digest;

-- A row of recomputed is a device and the time from which its segments are computed: an end of segments before the one that is
-- the last before its first day with another digest. What happens in a day may reach an hour back. Where slices of a GPU begin
-- and end follows from each other at all times: they are computed in full.
create or replace temp table recomputed as
with known as (
    select device_id, parent_id, gi from new_device
    union
    select device_id, parent_id, gi from device where cluster = $cluster
),
changed_gpu as (
    select parent_id, min(case when day >= 0 then day * 86400000000 - 3600000000 end) as from_us, min(day) < 0 as wholly
    from other_day
    group by parent_id
),
changed_device as (
    select
        k.device_id,
        case
            when $everything or c.wholly or k.parent_id in (select parent_id from known where gi >= 0) then -9223372036854775807
            else c.from_us
        end as from_us
    from known k
    left join changed_gpu c using (parent_id)
),
near as (
    select s.device_id, s.start_us, max(s.end_us) as end_us, any_value(c.from_us) as from_us
    from segment s
    join changed_device c on c.device_id = s.device_id
    where s.cluster = $cluster and s.end_us > c.from_us - 32 * 86400000000 and c.from_us > 0
    group by s.device_id, s.start_us
),
-- Where no segment of a device reaches over.
ended as (
    select
        *,
        coalesce(
            max(end_us) over (
                partition by device_id order by start_us rows between unbounded preceding and 1 preceding
            ) <= start_us,
            false
        ) as clean,
        max(case when end_us <= from_us then end_us when start_us <= from_us then start_us end) over (partition by device_id)
            as last_us
    from near
),
turn as (
    select device_id, max(start_us) as from_us from ended where clean and start_us < last_us group by device_id
)
select c.device_id, coalesce(t.from_us, -9223372036854775807) as from_us
from (select distinct device_id, from_us from changed_device where from_us is not null) c
left join turn t using (device_id);
