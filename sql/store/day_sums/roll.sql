-- Computes one whole day of a cluster in book_day.
delete from book_day where cluster = $cluster and day_us = $day_us;

insert into book_day by name
with unit as (
    select c.device_id, c.profile, c.class_id, case when d.gi >= 0 or d.profile is not null then c.device_id end as slice_id
    from device_class c
    left join device d on d.device_id = c.device_id and d.cluster = c.cluster
    where c.cluster = $cluster
),
part as (
    select
        u.class_id,
        u.slice_id as device_id,
        s.run_id,
        s.share_num,
        s.share_den,
        greatest(s.start_us, $day_us) as first_us,
        least(s.end_us, $day_us + 86400000000) - greatest(s.start_us, $day_us) as charged_us
    from segment s
    left join unit u on u.device_id = s.device_id and u.profile is not distinct from s.profile
    where s.cluster = $cluster and s.start_us < $day_us + 86400000000 and s.end_us > $day_us
    union all by name
    select
        u.class_id,
        u.slice_id as device_id,
        l.* exclude (cluster, hour_us, device_id, profile)
    from ledger_hour l
    join unit u on u.device_id = l.device_id and u.profile is not distinct from l.profile
    where l.cluster = $cluster and l.hour_us >= $day_us and l.hour_us < $day_us + 86400000000
)
select
    $cluster as cluster,
    $day_us as day_us,
    class_id,
    device_id,
    run_id,
    share_num,
    share_den,
    min(first_us) as first_us,
    coalesce(sum(columns('^(charged|schedulable|stranded|out_of_service|mig_remainder|unobserved|hoarded|gap|communication|stalled|below_roof|memory_roof|compute)_us$')), 0)::bigint as '\0'
from part
group by class_id, device_id, run_id, share_num, share_den
order by run_id, class_id, device_id, share_num, share_den;

-- The day whose sums are recomputed (roll_sums.sql).
create or replace temp table moved_day as select $day_us as day_us;

-- Segments of a device that has no class yet cannot be rolled: the day is read from them.
insert into rolled_day
select $cluster, $day_us
where not exists (select 1 from book_day where cluster = $cluster and day_us = $day_us and class_id is null);
