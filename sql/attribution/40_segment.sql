-- A row of placed_hold is a hold cut to what the fleet owned of its device.
create or replace temp table placed_hold as
select
    h.run_id,
    h.device_id,
    h.pod_uid,
    h.declared,
    h.estimated,
    h.start_us as held_us,
    greatest(h.start_us, c.start_us) as start_us,
    least(h.end_us, c.end_us) as end_us
from hold h
join capacity_span c
    on c.device_id = h.device_id and not c.remainder and h.start_us < c.end_us and h.end_us > c.start_us;

-- A row of silent is a span in which a device gave no samples while its cluster did: after the last of a vanished device,
-- and after the last of a slice until another layout takes its place. Up to three intervals are no silence: the sample of
-- this minute may still come.
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
    select device_id, start_us from silent
    union
    select device_id, end_us from silent
    union
    select d.device_id, o.from_us from outage o join new_device d using (node)
    union
    select d.device_id, o.to_us from outage o join new_device d using (node) where o.to_us is not null
),
span as (
    select device_id, at_us as start_us, lead(at_us) over (partition by device_id order by at_us) as end_us
    from edge
)
select s.device_id, s.start_us, s.end_us, c.share_num, c.share_den, c.profile
from span s
join capacity_span c
    on c.device_id = s.device_id and not c.remainder and s.start_us >= c.start_us and s.end_us <= c.end_us;

-- A row of holder is an elementary span and one who held it: declared owners before observed ones.
create or replace temp table holder as
with present as (
    select
        e.device_id,
        e.start_us,
        h.run_id,
        h.declared,
        count(*) as parts,
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
-- A device is shared where its node says so, or where samples of one instant name several owners.
shared_span as (
    select e.device_id, e.start_us
    from elementary e
    join owner_span o
        on o.device_id = e.device_id and o.shared
        and o.first_us - $label_lag_us < e.end_us and o.last_us + $label_lag_us > e.start_us
    group by all
    union
    select e.device_id, e.start_us
    from elementary e
    join new_device d using (device_id)
    join site s on s.node = d.node
    where s.sharing in ('time-slicing', 'mps')
),
-- Under MPS a pod has one of R replicas; the others are free (domain.md 7.2). Time slices are divided among those bound.
replica as (
    select d.device_id, s.replicas
    from new_device d
    join site s on s.node = d.node
    where s.sharing = 'mps' and s.replicas > 1
),
counted as (
    select
        c.*,
        greatest(
            sum(parts) over (partition by device_id, start_us), (select any_value(r.replicas) from replica r where r.device_id = c.device_id)
        ) as all_parts,
        count(*) over (partition by device_id, start_us) as owners,
        row_number() over (partition by device_id, start_us order by held_us desc, run_id) as newest,
        (device_id, start_us) in (select (device_id, start_us) from shared_span) as shared
    from chosen c
)
select
    device_id,
    start_us,
    run_id,
    case when shared then parts else 1 end::bigint as parts,
    case when shared then all_parts else 1 end::bigint as all_parts,
    estimated,
    owners > 1 and not shared as conflict
from counted
where shared or newest = 1;

create or replace temp table new_segment as
with cut as (
    select
        e.device_id,
        e.start_us,
        e.end_us,
        h.run_id,
        e.share_num * coalesce(h.parts, 1) as share_num,
        e.share_den * coalesce(h.all_parts, 1) as share_den,
        e.profile,
        case
            when h.run_id is not null then null
            when exists (
                select 1
                from outage o
                join new_device d using (node)
                where d.device_id = e.device_id and o.from_us <= e.start_us and coalesce(o.to_us >= e.end_us, true)
            ) then 'out_of_service'
            when exists (
                select 1
                from silent s
                where s.device_id = e.device_id and s.start_us <= e.start_us and s.end_us >= e.end_us
            ) then 'out_of_service'
            else 'schedulable'
        end as free_bucket,
        coalesce(h.estimated, false) as estimated,
        coalesce(h.conflict, false) as conflict
    from elementary e
    left join holder h using (device_id, start_us)
    union all
    select
        e.device_id,
        e.start_us,
        e.end_us,
        null,
        e.share_num * (h.all_parts - h.bound),
        e.share_den * h.all_parts,
        e.profile,
        'schedulable',
        false,
        false
    from elementary e
    join (
        select device_id, start_us, any_value(all_parts) as all_parts, sum(parts) as bound
        from holder
        group by all
    ) h using (device_id, start_us)
    where h.all_parts > h.bound
    union all
    select device_id, start_us, end_us, null, share_num, share_den, null, 'mig_remainder', false, false
    from capacity_span
    where remainder
),
-- A later record that changes nothing must not move an edge: neighbours that say the same are one segment.
linked as (
    select
        *,
        start_us is distinct from lag(end_us) over alike as begins
    from cut
    window alike as (
        partition by device_id, run_id, share_num, share_den, profile, free_bucket, estimated, conflict order by start_us
    )
),
numbered as (
    select
        *,
        count(*) filter (where begins) over (
            partition by device_id, run_id, share_num, share_den, profile, free_bucket, estimated, conflict order by start_us
        ) as turn
    from linked
)
select
    $cluster as cluster,
    device_id,
    min(start_us) as start_us,
    max(end_us) as end_us,
    run_id,
    share_num,
    share_den,
    profile,
    free_bucket,
    estimated,
    conflict
from numbered
group by device_id, run_id, share_num, share_den, profile, free_bucket, estimated, conflict, turn;
