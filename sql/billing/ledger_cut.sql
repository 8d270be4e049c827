-- Adds to piece what the hours hold that the window or a new price cuts: their segments, divided by their minutes.
insert into piece by name
with near_segment as (
    select *
    from segment
    where start_us < getvariable('uncut_from_us') and end_us > $start_us
    union all
    select *
    from segment
    where start_us >= getvariable('uncut_from_us')
        and end_us > getvariable('uncut_until_us')
        and start_us < $end_us
),
cut_segment as (
    select
        s.*,
        greatest(s.start_us, h.from_us) as from_us,
        least(s.end_us, h.to_us) as to_us
    from near_segment s
    join (
        select f.cluster, h.from_us, h.to_us
        from cut_span h
        join fine_span f on h.from_us >= f.from_us and h.to_us <= f.to_us
    ) h
        on h.cluster = s.cluster and s.start_us < h.to_us and s.end_us > h.from_us
),
-- The edges of the window are constants, so that only the row groups of their hours are read.
minute as (
    select *
    from device_minute
    where hour_us = $start_us // 3600000000 * 3600000000
    union all
    select *
    from device_minute
    where hour_us = $end_us // 3600000000 * 3600000000
        and hour_us <> $start_us // 3600000000 * 3600000000
    union all
    select *
    from device_minute
    where hour_us in (
        select hour_us
        from cut_span
        where hour_us <> $start_us // 3600000000 * 3600000000 and hour_us <> $end_us // 3600000000 * 3600000000
    )
),
-- A minute that an edge cuts is divided in proportion, by cumulative rounding in the order of the buckets.
cumulative as (
    select
        m.device_id,
        m.start_us,
        m.end_us - m.start_us as length_us,
        greatest(m.start_us, h.from_us) - m.start_us as a,
        least(m.end_us, h.to_us) - m.start_us as b,
        m.unobserved_us as s1,
        s1 + m.hoarded_us as s2,
        s2 + m.gap_us as s3,
        s3 + m.communication_us as s4,
        s4 + m.stalled_us as s5,
        s5 + m.below_roof_us as s6,
        s6 + m.memory_roof_us as s7,
        s7 + m.compute_us as s8
    from minute m
    join cut_span h on h.hour_us = m.hour_us and m.start_us < h.to_us and m.end_us > h.from_us
    where ($cluster is null or m.cluster = $cluster)
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
-- What is stranded of free time that an edge cuts: rounded from the begin of each state, as the books of the hour are.
cut_stranded as (
    select
        s.device_id,
        s.start_us,
        s.from_us,
        s.share_num,
        sum(
            (2 * (least(t.end_us, s.to_us) - greatest(t.start_us, s.start_us))::hugeint * t.lost + t.weight)
            // (2 * t.weight)
            - (2 * (greatest(t.start_us, s.from_us) - greatest(t.start_us, s.start_us))::hugeint * t.lost + t.weight)
            // (2 * t.weight)
        )::bigint as stranded_us
    from cut_segment s
    join device d on d.device_id = s.device_id and d.cluster = s.cluster
    join stranding t
        on t.cluster = s.cluster
        and t.hour_us = s.from_us // 3600000000 * 3600000000
        and t.place = case when d.gi >= 0 then d.gpu else coalesce(d.node, d.gpu) end
        and t.model is not distinct from nullif(d.model, '')
        and t.partitioned = (d.gi >= 0)
        and t.milli = case when d.gi >= 0 then 0 else 1000 * s.share_num // s.share_den end
        and t.start_us < s.to_us and t.end_us > s.from_us
    where s.run_id is null and s.free_bucket = 'schedulable' and t.lost > 0
    group by all
),
cut_piece as (
    select
        s.cluster,
        s.from_us // $step_us as step,
        s.run_id,
        s.run_id is not null as held,
        null::varchar as team,
        p.kind_id,
        s.share_num,
        s.share_den,
        case when s.free_bucket = 'schedulable' then s.to_us - s.from_us else 0 end
        - coalesce(z.stranded_us, 0) as schedulable_us,
        case when s.free_bucket = 'stranded' then s.to_us - s.from_us else 0 end
        + coalesce(z.stranded_us, 0) as stranded_us,
        case when s.free_bucket = 'out_of_service' then s.to_us - s.from_us else 0 end as out_of_service_us,
        case when s.free_bucket = 'mig_remainder' then s.to_us - s.from_us else 0 end as mig_remainder_us,
        case
            when s.run_id is not null
                then s.to_us - s.from_us - coalesce(o.observed_us, 0) + coalesce(o.unobserved_us, 0)
            else 0
        end as unobserved_us,
        coalesce(o.hoarded_us, 0) as hoarded_us,
        coalesce(o.gap_us, 0) as gap_us,
        coalesce(o.communication_us, 0) as communication_us,
        coalesce(o.stalled_us, 0) as stalled_us,
        coalesce(o.below_roof_us, 0) as below_roof_us,
        coalesce(o.memory_roof_us, 0) as memory_roof_us,
        coalesce(o.compute_us, 0) as compute_us
    from cut_segment s
    join unit u on u.device_id = s.device_id and u.profile is not distinct from s.profile and u.cluster = s.cluster
    join priced_unit p on p.unit_id = u.unit_id
    left join cut_observed o
        on s.run_id is not null
        and o.device_id = s.device_id and o.start_us = s.start_us and o.from_us = s.from_us
    left join cut_stranded z
        on s.run_id is null
        and z.device_id = s.device_id and z.start_us = s.start_us and z.from_us = s.from_us
        and z.share_num = s.share_num
    -- Cut spans end where prices do. Compared this way, spans do not lead the database to join each with each.
    where greatest(s.from_us, p.start_us) < least(s.to_us, p.end_us)
)
select
    cluster,
    step,
    case when $by_run or $by_team or $teams is not null then run_id end as run_id,
    held,
    team,
    kind_id,
    share_num,
    share_den,
    sum(schedulable_us) as schedulable_us,
    sum(stranded_us) as stranded_us,
    sum(out_of_service_us) as out_of_service_us,
    sum(mig_remainder_us) as mig_remainder_us,
    sum(unobserved_us) as unobserved_us,
    sum(hoarded_us) as hoarded_us,
    sum(gap_us) as gap_us,
    sum(communication_us) as communication_us,
    sum(stalled_us) as stalled_us,
    sum(below_roof_us) as below_roof_us,
    sum(memory_roof_us) as memory_roof_us,
    sum(compute_us) as compute_us
from cut_piece
group by all;
