-- A row is a group of the books and its buckets: device microseconds times share units, to be divided by share_den.
-- Whole hours come from ledger_hour; an hour that the window cuts comes from its segments and minutes.
with cut_hour as (
    select distinct hour_us
    from (
        values ($start_us // 3600000000 * 3600000000), ($end_us // 3600000000 * 3600000000)
    ) as edge (hour_us)
    where hour_us < $start_us or hour_us + 3600000000 > $end_us
),
cut_segment as (
    select
        s.*,
        greatest(s.start_us, h.hour_us, $start_us) as from_us,
        least(s.end_us, h.hour_us + 3600000000, $end_us) as to_us
    from segment s
    join cut_hour h on s.start_us < h.hour_us + 3600000000 and s.end_us > h.hour_us
    where from_us < to_us
),
-- A minute that the window cuts is divided in proportion, by cumulative rounding in the order of the buckets.
cumulative as (
    select
        m.device_id,
        m.start_us,
        m.end_us - m.start_us as length_us,
        greatest(m.start_us, $start_us) - m.start_us as a,
        least(m.end_us, $end_us) - m.start_us as b,
        m.unobserved_us as s1,
        s1 + m.hoarded_us as s2,
        s2 + m.gap_us as s3,
        s3 + m.communication_us as s4,
        s4 + m.stalled_us as s5,
        s5 + m.below_roof_us as s6,
        s6 + m.memory_roof_us as s7,
        s7 + m.compute_us as s8
    from device_minute m
    join cut_hour h on h.hour_us = m.hour_us
    where m.start_us < $end_us and m.end_us > $start_us
),
cut_minute as (
    select
        device_id,
        start_us + a as from_us,
        (s8 * b + length_us // 2) // length_us - (s8 * a + length_us // 2) // length_us as observed_us,
        (s1 * b + length_us // 2) // length_us - (s1 * a + length_us // 2) // length_us as c1,
        (s2 * b + length_us // 2) // length_us - (s2 * a + length_us // 2) // length_us as c2,
        (s3 * b + length_us // 2) // length_us - (s3 * a + length_us // 2) // length_us as c3,
        (s4 * b + length_us // 2) // length_us - (s4 * a + length_us // 2) // length_us as c4,
        (s5 * b + length_us // 2) // length_us - (s5 * a + length_us // 2) // length_us as c5,
        (s6 * b + length_us // 2) // length_us - (s6 * a + length_us // 2) // length_us as c6,
        (s7 * b + length_us // 2) // length_us - (s7 * a + length_us // 2) // length_us as c7
    from cumulative
),
cut_observed as (
    select
        s.device_id,
        s.start_us,
        s.from_us,
        sum(m.observed_us) as observed_us,
        sum(m.c1) as unobserved_us,
        sum(m.c2 - m.c1) as hoarded_us,
        sum(m.c3 - m.c2) as gap_us,
        sum(m.c4 - m.c3) as communication_us,
        sum(m.c5 - m.c4) as stalled_us,
        sum(m.c6 - m.c5) as below_roof_us,
        sum(m.c7 - m.c6) as memory_roof_us,
        sum(m.observed_us - m.c7) as compute_us
    from (select distinct device_id, start_us, from_us, to_us from cut_segment where run_id is not null) s
    join cut_minute m on m.device_id = s.device_id and m.from_us >= s.from_us and m.from_us < s.to_us
    group by all
),
booked as (
    select
        cluster,
        device_id,
        run_id,
        share_num,
        share_den,
        profile,
        schedulable_us,
        stranded_us,
        out_of_service_us,
        mig_remainder_us,
        unobserved_us,
        hoarded_us,
        gap_us,
        communication_us,
        stalled_us,
        below_roof_us,
        memory_roof_us,
        compute_us
    from ledger_hour
    where hour_us >= $start_us and hour_us + 3600000000 <= $end_us
    union all
    select
        s.cluster,
        s.device_id,
        s.run_id,
        s.share_num,
        s.share_den,
        s.profile,
        case when s.free_bucket = 'schedulable' then s.to_us - s.from_us else 0 end,
        case when s.free_bucket = 'stranded' then s.to_us - s.from_us else 0 end,
        case when s.free_bucket = 'out_of_service' then s.to_us - s.from_us else 0 end,
        case when s.free_bucket = 'mig_remainder' then s.to_us - s.from_us else 0 end,
        case
            when s.run_id is not null
                then s.to_us - s.from_us - coalesce(o.observed_us, 0) + coalesce(o.unobserved_us, 0)
            else 0
        end,
        coalesce(o.hoarded_us, 0),
        coalesce(o.gap_us, 0),
        coalesce(o.communication_us, 0),
        coalesce(o.stalled_us, 0),
        coalesce(o.below_roof_us, 0),
        coalesce(o.memory_roof_us, 0),
        coalesce(o.compute_us, 0)
    from cut_segment s
    left join cut_observed o
        on s.run_id is not null
        and o.device_id = s.device_id and o.start_us = s.start_us and o.from_us = s.from_us
)
select
    case
        when $by_team then
            case when b.run_id is null then '__platform__' else coalesce(t.team, '__unallocated__') end
    end as team,
    case when $by_user then r.user_name end as user,
    case when $by_queue then r.queue end as queue,
    case when $by_namespace then r.namespace end as namespace,
    case when $by_account then r.account end as account,
    case when $by_job then r.job_id end as job,
    case when $by_gpu_model then d.model end as gpu_model,
    case when $by_mig_profile then b.profile end as mig_profile,
    case when $by_slice and d.gi >= 0 then d.gpu || '/GI-' || d.gi end as slice,
    case when $by_cluster then d.cluster end as cluster,
    case when $by_pool then d.pool end as pool,
    b.share_den,
    sum(b.schedulable_us::hugeint * b.share_num)::varchar as schedulable,
    sum(b.stranded_us::hugeint * b.share_num)::varchar as stranded,
    sum(b.out_of_service_us::hugeint * b.share_num)::varchar as out_of_service,
    sum(b.mig_remainder_us::hugeint * b.share_num)::varchar as mig_remainder,
    sum(b.unobserved_us::hugeint * b.share_num)::varchar as unobserved,
    sum(b.hoarded_us::hugeint * b.share_num)::varchar as hoarded,
    sum(b.gap_us::hugeint * b.share_num)::varchar as gap,
    sum(b.communication_us::hugeint * b.share_num)::varchar as communication,
    sum(b.stalled_us::hugeint * b.share_num)::varchar as stalled,
    sum(b.below_roof_us::hugeint * b.share_num)::varchar as below_roof,
    sum(b.memory_roof_us::hugeint * b.share_num)::varchar as memory_roof,
    sum(b.compute_us::hugeint * b.share_num)::varchar as compute
from booked b
join device d on d.device_id = b.device_id and d.cluster = b.cluster
left join run r on r.run_id = b.run_id and r.cluster = b.cluster
left join run_team t on t.run_id = b.run_id and t.cluster = b.cluster
where ($cluster is null or b.cluster = $cluster)
    and ($team is null or (t.team = $team and b.run_id is not null))
group by all
order by all;
