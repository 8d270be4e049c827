-- A row of new_segment is a device, a span and one of its owners, or the bucket of an unheld part.
create or replace temp table new_segment as
-- The part without a slice is out of service when its GPU is: while its node is, and while no slice of it gives samples.
with remainder_silent as (
    select c.device_id, greatest(max(s.start_us), c.start_us) as start_us, c.end_us
    from capacity_span c
    join new_device d on d.parent_id = c.device_id and d.gi >= 0
    join capacity_span p on p.device_id = d.device_id and p.start_us = c.start_us and p.end_us = c.end_us
    left join silent s on s.device_id = p.device_id and s.start_us < c.end_us and s.end_us >= c.end_us
    where c.remainder
    group by c.device_id, c.start_us, c.end_us
    having count(*) = count(s.device_id)
),
remainder_out as (
    select device_id, from_us as start_us, coalesce(to_us, 9223372036854775807) as end_us
    from device_outage
    where device_id in (select device_id from capacity_span where remainder)
    union all
    select * from remainder_silent
),
remainder_edge as (
    select device_id, start_us as at_us from capacity_span where remainder
    union
    select device_id, end_us from capacity_span where remainder
    union
    select device_id, start_us from remainder_out
    union
    select device_id, end_us from remainder_out
),
remainder_part as (
    select device_id, at_us as start_us, lead(at_us) over (partition by device_id order by at_us) as end_us
    from remainder_edge
),
out_span as (
    select device_id, from_us as start_us, coalesce(to_us, 9223372036854775807) as end_us
    from device_outage
    union all
    select device_id, start_us, end_us from silent
),
-- An elementary span in which the device was out of service.
out_piece as (
    select distinct e.device_id, e.start_us
    from elementary e
    join out_span o on o.device_id = e.device_id and o.start_us <= e.start_us and o.end_us >= e.end_us
),
cut as (
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
            when o.device_id is not null then 'out_of_service'
            else 'schedulable'
        end as free_bucket,
        coalesce(h.estimated, false) as estimated,
        coalesce(h.conflict, false) as conflict,
        e.method,
        h.split
    from elementary e
    left join holder h using (device_id, start_us)
    left join out_piece o using (device_id, start_us)
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
        false,
        e.method,
        h.split
    from elementary e
    join free_part h using (device_id, start_us)
    union all
    select
        c.device_id,
        p.start_us,
        p.end_us,
        null,
        c.share_num,
        c.share_den,
        null,
        case
            when exists (
                select 1
                from remainder_out o
                where o.device_id = c.device_id and o.start_us <= p.start_us and o.end_us >= p.end_us
            ) then 'out_of_service'
            else 'mig_remainder'
        end,
        false,
        false,
        c.method,
        null
    from capacity_span c
    join remainder_part p
        on p.device_id = c.device_id and p.start_us >= c.start_us and p.end_us <= c.end_us
    where c.remainder
),
-- Owners that share a device are cut together: when one arrives or leaves, all of them start a new segment, even if their
-- own share is unchanged.
company as (
    select
        device_id,
        start_us,
        sum(hash(run_id, share_num, share_den, free_bucket)::hugeint) as members
    from cut
    group by device_id, start_us
    having count(*) > 1
),
-- A later record that changes nothing must not move an edge, so equal neighbours are merged into one segment.
linked as (
    select
        cut.*,
        m.members,
        start_us is distinct from lag(end_us) over alike as begins
    from cut
    left join company m using (device_id, start_us)
    window alike as (
        partition by
            device_id, run_id, share_num, share_den, profile, free_bucket, estimated, conflict, method, split, members
        order by start_us
    )
),
numbered as (
    select
        *,
        count(case when begins then 1 end) over (
            partition by
            device_id, run_id, share_num, share_den, profile, free_bucket, estimated, conflict, method, split, members
        order by start_us
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
    conflict,
    method,
    split
from numbered
group by
    device_id, run_id, share_num, share_den, profile, free_bucket, estimated, conflict, method, split, members, turn;
