-- A row of new_segment is a device, a span and one of its owners, or the bucket of what nobody holds.
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
    join free_part h using (device_id, start_us)
    union all
    select device_id, start_us, end_us, null, share_num, share_den, null, 'mig_remainder', false, false
    from capacity_span
    where remainder
),
-- Those who share a device are cut together: where one comes or goes, all of them begin anew, also when their own share
-- stays as it was.
company as (
    select
        device_id,
        start_us,
        sum(hash(run_id, share_num, share_den, free_bucket)::hugeint) as members
    from cut
    group by device_id, start_us
    having count(*) > 1
),
-- A later record that changes nothing must not move an edge: neighbours that say the same are one segment.
linked as (
    select
        cut.*,
        m.members,
        start_us is distinct from lag(end_us) over alike as begins
    from cut
    left join company m using (device_id, start_us)
    window alike as (
        partition by device_id, run_id, share_num, share_den, profile, free_bucket, estimated, conflict, members order by start_us
    )
),
numbered as (
    select
        *,
        count(*) filter (where begins) over (
            partition by device_id, run_id, share_num, share_den, profile, free_bucket, estimated, conflict, members order by start_us
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
group by device_id, run_id, share_num, share_den, profile, free_bucket, estimated, conflict, members, turn;
