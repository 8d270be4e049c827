-- A row is a run, a share unit and its buckets in the hours that the window cuts: device microseconds times share units,
-- to be divided by share_den. They come from segments and minutes, divided as reports/ledger.sql divides them, so that
-- both give the same sums.
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
    where from_us < to_us and s.run_id in (select run_id from asked_run)
),
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
    -- Constants, so that only the row groups of these hours are read.
    where (
            m.hour_us = $start_us // 3600000000 * 3600000000
            or m.hour_us = $end_us // 3600000000 * 3600000000
        )
        and m.hour_us in (select hour_us from cut_hour)
        and m.start_us < $end_us and m.end_us > $start_us
        and m.device_id in (select device_id from cut_segment)
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
    from (select distinct device_id, start_us, from_us, to_us from cut_segment) s
    join cut_minute m on m.device_id = s.device_id and m.from_us >= s.from_us and m.from_us < s.to_us
    group by all
),
booked as (
    select
        s.run_id,
        s.share_num,
        s.share_den,
        s.to_us - s.from_us - coalesce(o.observed_us, 0) + coalesce(o.unobserved_us, 0) as unobserved_us,
        coalesce(o.hoarded_us, 0) as hoarded_us,
        coalesce(o.gap_us, 0) as gap_us,
        coalesce(o.communication_us, 0) as communication_us,
        coalesce(o.stalled_us, 0) as stalled_us,
        coalesce(o.below_roof_us, 0) as below_roof_us,
        coalesce(o.memory_roof_us, 0) as memory_roof_us,
        coalesce(o.compute_us, 0) as compute_us
    from cut_segment s
    left join cut_observed o
        on o.device_id = s.device_id and o.start_us = s.start_us and o.from_us = s.from_us
)
select
    run_id,
    share_den,
    sum(unobserved_us::hugeint * share_num)::varchar as unobserved,
    sum(hoarded_us::hugeint * share_num)::varchar as hoarded,
    sum(gap_us::hugeint * share_num)::varchar as gap,
    sum(communication_us::hugeint * share_num)::varchar as communication,
    sum(stalled_us::hugeint * share_num)::varchar as stalled,
    sum(below_roof_us::hugeint * share_num)::varchar as below_roof,
    sum(memory_roof_us::hugeint * share_num)::varchar as memory_roof,
    sum(compute_us::hugeint * share_num)::varchar as compute
from booked
group by run_id, share_den
order by run_id, share_den;
