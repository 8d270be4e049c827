-- Computes one day of a cluster in book_day, whole.
delete from rolled_day where cluster = $cluster and day_us = $day_us;

delete from book_day where cluster = $cluster and day_us = $day_us;

insert into book_day by name
with part as (
    select
        c.class_id,
        s.run_id,
        s.share_num,
        s.share_den,
        greatest(s.start_us, $day_us) as first_us,
        least(s.end_us, $day_us + 86400000000) - greatest(s.start_us, $day_us) as charged_us,
        0 as schedulable_us,
        0 as stranded_us,
        0 as out_of_service_us,
        0 as mig_remainder_us,
        0 as unobserved_us,
        0 as hoarded_us,
        0 as gap_us,
        0 as communication_us,
        0 as stalled_us,
        0 as below_roof_us,
        0 as memory_roof_us,
        0 as compute_us
    from segment s
    left join device_class c
        on c.device_id = s.device_id and c.profile is not distinct from s.profile and c.cluster = s.cluster
    where s.cluster = $cluster and s.start_us < $day_us + 86400000000 and s.end_us > $day_us
    union all
    select
        c.class_id,
        l.run_id,
        l.share_num,
        l.share_den,
        null,
        0,
        l.schedulable_us,
        l.stranded_us,
        l.out_of_service_us,
        l.mig_remainder_us,
        l.unobserved_us,
        l.hoarded_us,
        l.gap_us,
        l.communication_us,
        l.stalled_us,
        l.below_roof_us,
        l.memory_roof_us,
        l.compute_us
    from ledger_hour l
    join device_class c
        on c.device_id = l.device_id and c.profile is not distinct from l.profile and c.cluster = l.cluster
    where l.cluster = $cluster and l.hour_us >= $day_us and l.hour_us < $day_us + 86400000000
)
select
    $cluster as cluster,
    $day_us as day_us,
    class_id,
    run_id,
    share_num,
    share_den,
    min(first_us) as first_us,
    sum(charged_us)::bigint as charged_us,
    sum(schedulable_us)::bigint as schedulable_us,
    sum(stranded_us)::bigint as stranded_us,
    sum(out_of_service_us)::bigint as out_of_service_us,
    sum(mig_remainder_us)::bigint as mig_remainder_us,
    sum(unobserved_us)::bigint as unobserved_us,
    sum(hoarded_us)::bigint as hoarded_us,
    sum(gap_us)::bigint as gap_us,
    sum(communication_us)::bigint as communication_us,
    sum(stalled_us)::bigint as stalled_us,
    sum(below_roof_us)::bigint as below_roof_us,
    sum(memory_roof_us)::bigint as memory_roof_us,
    sum(compute_us)::bigint as compute_us
from part
group by class_id, run_id, share_num, share_den
order by run_id, class_id, share_num, share_den;

delete from team_day where cluster = $cluster and day_us = $day_us;

insert into team_day by name
select
    b.cluster,
    b.day_us,
    b.class_id,
    b.run_id is not null as held,
    case when b.run_id is null then '__platform__' else coalesce(t.team, '__unallocated__') end as owner,
    b.share_num,
    b.share_den,
    min(b.first_us) as first_us,
    sum(b.charged_us)::bigint as charged_us,
    sum(b.schedulable_us)::bigint as schedulable_us,
    sum(b.stranded_us)::bigint as stranded_us,
    sum(b.out_of_service_us)::bigint as out_of_service_us,
    sum(b.mig_remainder_us)::bigint as mig_remainder_us,
    sum(b.unobserved_us)::bigint as unobserved_us,
    sum(b.hoarded_us)::bigint as hoarded_us,
    sum(b.gap_us)::bigint as gap_us,
    sum(b.communication_us)::bigint as communication_us,
    sum(b.stalled_us)::bigint as stalled_us,
    sum(b.below_roof_us)::bigint as below_roof_us,
    sum(b.memory_roof_us)::bigint as memory_roof_us,
    sum(b.compute_us)::bigint as compute_us
from book_day b
left join run_team t on t.run_id = b.run_id and t.cluster = b.cluster
where b.cluster = $cluster and b.day_us = $day_us
group by all
order by all;

-- Segments of a device that has no class yet cannot be rolled: the day is read from them.
insert into rolled_day
select $cluster, $day_us
where not exists (select 1 from book_day where cluster = $cluster and day_us = $day_us and class_id is null);
