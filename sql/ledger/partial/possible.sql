-- A row of claim_node is a node that a scheduler's allocations name.
create or replace temp table claim_node as
select distinct scheduler, node from claim where cluster = $cluster;

-- Whether records of a part of the time are enough, and from when on there are others than those of the last attribution.
-- Runs inside of runs, slices, division by processes and devices without samples depend on records of any time.
select
    (select count(*) from attributed where cluster = $cluster and basis = $basis) = 1
    and (select count(*) from process_use where cluster = $cluster) = 0
    and (select bool_and(gi < 0 and (measured or (profile is null and kind is null))) from device where cluster = $cluster)
    -- Labels of one instant share a device for as long as its owners stay, however long ago they were.
    and (
        select count(*)
        from context_span o
        join context c using (context_id)
        where c.cluster = $cluster and o.shared
    ) = 0
    and not list_contains(s.schedulers, 'ray')
    and (
        not list_has_any(s.schedulers, ['slurm'])
        or (
            not list_contains(s.schedulers, 'kubernetes')
            and (select count(pod) from context where cluster = $cluster) = 0
        )
    )
    and (
        (select count(device_indexes) from claim where cluster = $cluster) = 0
        or (
            select count(*)
            from (
                select device_id
                from context
                where cluster = $cluster
                group by device_id
                having count(distinct gpu_index) > 1
            )
        ) = 0
    ) as possible,
    least(
        (select min(hour_us) from changed_hour),
        (select min(hour_us) from dirty_hour where cluster = $cluster),
        (select max(last_us) from device where cluster = $cluster)
    ) as changed_us,
    (select max(last_us) from device where cluster = $cluster) as last_us
from (
    select coalesce(list(distinct scheduler), []) as schedulers
    from (select scheduler from claim_node union select scheduler from node where cluster = $cluster)
) s;
