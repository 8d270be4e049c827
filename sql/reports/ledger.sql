-- A row of cut_span is a part of an hour that the window or a new price cuts: it is told by its segments and minutes.
create or replace temp table cut_span as
with edge as (
    select $start_us as at_us
    union
    select $end_us
    union
    select start_us from priced_unit where start_us > $start_us and start_us < $end_us
),
cut_hour as (
    select distinct at_us // 3600000000 * 3600000000 as hour_us from edge where at_us % 3600000000 <> 0
),
cut_at as (
    select hour_us, greatest(hour_us, $start_us) as at_us from cut_hour
    union
    select hour_us, least(hour_us + 3600000000, $end_us) from cut_hour
    union
    select h.hour_us, e.at_us
    from cut_hour h
    join edge e on e.at_us > h.hour_us and e.at_us < h.hour_us + 3600000000
)
select hour_us, at_us as from_us, lead(at_us) over (partition by hour_us order by at_us) as to_us
from cut_at
qualify to_us is not null;

-- A row of book is a group of the books of one kind: microseconds of its devices in each bucket. Whole days come from
-- book_day, whole hours from ledger_hour; what is cut is added by reports/ledger_cut.sql.
create or replace temp table book as
with piece as (
    select
        b.cluster,
        b.day_us // $step_us as step,
        b.run_id,
        p.kind_id,
        b.share_num,
        b.share_den,
        b.schedulable_us,
        b.stranded_us,
        b.out_of_service_us,
        b.mig_remainder_us,
        b.unobserved_us,
        b.hoarded_us,
        b.gap_us,
        b.communication_us,
        b.stalled_us,
        b.below_roof_us,
        b.memory_roof_us,
        b.compute_us
    from book_day b
    join whole_day w on w.cluster = b.cluster and w.day_us = b.day_us
    join priced_unit p on p.unit_id = b.class_id and p.start_us <= b.day_us and p.end_us > b.day_us
    where b.day_us >= $start_us and b.day_us < $end_us
    union all
    select
        l.cluster,
        l.hour_us // $step_us,
        l.run_id,
        p.kind_id,
        l.share_num,
        l.share_den,
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
    join fine_span f on f.cluster = l.cluster and l.hour_us < f.to_us and l.hour_us >= f.from_us
    join unit u on u.device_id = l.device_id and u.profile is not distinct from l.profile and u.cluster = l.cluster
    join priced_unit p on p.unit_id = u.unit_id and p.start_us <= l.hour_us and p.end_us > l.hour_us
    where l.hour_us >= $start_us and l.hour_us + 3600000000 <= $end_us
        and l.hour_us not in (select hour_us from cut_span)
),
owned as (
    select
        s.step,
        s.run_id is not null as held,
        case when s.run_id is null then '__platform__' else coalesce(t.team, '__unallocated__') end as owner,
        coalesce(list_contains($teams::varchar[], owner), true) as shown,
        case when $by_team then owner end as team,
        case when $by_user then r.user_name end as user,
        case when $by_queue then r.queue end as queue,
        case when $by_namespace then r.namespace end as namespace,
        case when $by_account then r.account end as account,
        case when $by_job then r.job_id end as job,
        s.kind_id,
        s.share_num,
        s.share_den,
        s.schedulable_us,
        s.stranded_us,
        s.out_of_service_us,
        s.mig_remainder_us,
        s.unobserved_us,
        s.hoarded_us,
        s.gap_us,
        s.communication_us,
        s.stalled_us,
        s.below_roof_us,
        s.memory_roof_us,
        s.compute_us
    from piece s
    left join run r on r.run_id = s.run_id and r.cluster = s.cluster
    left join run_team t on t.run_id = s.run_id and t.cluster = s.cluster
)
select
    step,
    held,
    shown,
    team,
    user,
    queue,
    namespace,
    account,
    job,
    kind_id,
    share_num,
    share_den,
    sum(schedulable_us) as schedulable,
    sum(stranded_us) as stranded,
    sum(out_of_service_us) as out_of_service,
    sum(mig_remainder_us) as mig_remainder,
    sum(unobserved_us) as unobserved,
    sum(hoarded_us) as hoarded,
    sum(gap_us) as gap,
    sum(communication_us) as communication,
    sum(stalled_us) as stalled,
    sum(below_roof_us) as below_roof,
    sum(memory_roof_us) as memory_roof,
    sum(compute_us) as compute
from owned
group by all;
