-- A row of cut_bucket is a part of a segment that an edge cuts, and its observed device microseconds by bucket. It reads two
-- temporary tables: cut_segment, segments clipped to [from_us, to_us), and cut_minute, minutes of device_minute clipped alike.
-- It is a table because a question reads it twice, and planning it costs more than its few rows.
-- A clipped minute is divided in proportion, by cumulative rounding in the order of the buckets.
create or replace temp table cut_bucket as
with cumulative as (
    select
        device_id,
        from_us,
        from_us - start_us as a,
        to_us - start_us as b,
        end_us - start_us as length_us,
        unobserved_us as s1,
        s1 + hoarded_us as s2,
        s2 + gap_us as s3,
        s3 + communication_us as s4,
        s4 + stalled_us as s5,
        s5 + below_roof_us as s6,
        s6 + memory_roof_us as s7,
        s7 + compute_us as s8
    from cut_minute
),
divided as (
    select
        device_id,
        from_us,
        (columns('^s[1-8]$') * b + length_us // 2) // length_us - (columns('^s[1-8]$') * a + length_us // 2) // length_us
    from cumulative
)
select
    s.device_id,
    s.start_us,
    s.from_us,
    sum(m.s8) as observed_us,
    sum(m.s1) as unobserved_us,
    sum(m.s2 - m.s1) as hoarded_us,
    sum(m.s3 - m.s2) as gap_us,
    sum(m.s4 - m.s3) as communication_us,
    sum(m.s5 - m.s4) as stalled_us,
    sum(m.s6 - m.s5) as below_roof_us,
    sum(m.s7 - m.s6) as memory_roof_us,
    sum(m.s8 - m.s7) as compute_us
from (select distinct device_id, start_us, from_us, to_us from cut_segment where run_id is not null) s
join divided m on m.device_id = s.device_id and m.from_us >= s.from_us and m.from_us < s.to_us
group by all;
