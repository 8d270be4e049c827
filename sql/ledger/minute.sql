-- A row of minute is a held device, its owned span and a minute: microseconds in each bucket that was observed.
-- The fractions of each bucket become microseconds by cumulative rounding, so that each piece adds up exactly.
create or replace temp table minute as
with labelled as (
    select
        p.*,
        t.tensor_roof,
        t.dram_roof,
        p.idle and (p.device_id, p.span_us, p.from_us) in (
            select (device_id, span_us, from_us)
            from idle_piece
            where proven and run_end_us - run_start_us >= $idle_us_min
        ) as hoarded
    from piece p
    join device_trait t using (device_id)
    where p.to_us > $slice_from_us and p.from_us < $slice_until_us and p.span_us is not null and not p.watched
),
known as (
    select
        device_id,
        span_us,
        from_us,
        to_us,
        hoarded,
        g,
        -- least() and greatest() ignore NULL, so unknown values are checked first.
        case when sm_active_ratio > g then g else sm_active_ratio end as s,
        least(s, coalesce(greatest(tensor_active_ratio / tensor_roof, fp_active_ratio), 0)) as uc,
        least(s, coalesce(dram_active_ratio / dram_roof, 0)) as um,
        coalesce(tensor_active_ratio, dram_active_ratio, fp_active_ratio) is not null as roof_known,
        case when gang then coalesce(link_ratio, 0) else 0 end as x
    from labelled
),
-- Without SM_ACTIVE only the gap is known; without G the time outside SM_ACTIVE is not; without any pipe or DRAM
-- reading the work inside SM_ACTIVE is not. What is not known is unobserved, never zero.
split as (
    select
        device_id,
        span_us,
        from_us,
        to_us,
        hoarded,
        case
            when g is null and s is null then 1
            when s is null then g
            else case when g is null then 1 - s else 0 end + case when roof_known then 0 else s end
        end as unobserved,
        coalesce(1 - g, 0) as gap,
        case when s is not null and g is not null then g - s else 0 end as under,
        case when s is not null and roof_known then s - greatest(uc, um) else 0 end as low,
        case when s is not null and roof_known then greatest(um - uc, 0) else 0 end as memory,
        x
    from known
),
cumulative as (
    select
        device_id,
        span_us,
        from_us,
        to_us,
        hoarded,
        unobserved as c0,
        c0 + gap as c1,
        c1 + least(under + low, x) as c2,
        c2 + greatest(under - x, 0) as c3,
        greatest(c3, c1 + under + low) as c4,
        c4 + memory as c5
    from split
),
cut as (
    -- Nearly all pieces lie in one minute or in two. A list of these takes half the time of range().
    select
        *,
        unnest(
            case
                when from_us // 60000000 = (to_us - 1) // 60000000 then [from_us // 60000000]
                when from_us // 60000000 + 1 = (to_us - 1) // 60000000 then [from_us // 60000000, (to_us - 1) // 60000000]
                else range(from_us // 60000000, (to_us - 1) // 60000000 + 1)
            end
        ) * 60000000 as minute_us
    from cumulative
),
part as (
    select
        *,
        greatest(from_us, minute_us) as a,
        least(to_us, minute_us + 60000000) as b,
        (b - a)::double as length_us,
        case when hoarded then 0 else length_us end as split_us
    from cut
    where a >= $slice_from_us and a < $slice_until_us
),
summed as (
    select
        device_id,
        span_us,
        a // 60000000 as minute,
        min(a) as start_us,
        max(b) as end_us,
        sum(length_us)::bigint as observed_us,
        sum(split_us)::bigint as split_us,
        sum(round(split_us * c0))::bigint as r0,
        sum(round(split_us * c1))::bigint as r1,
        sum(round(split_us * c2))::bigint as r2,
        sum(round(split_us * c3))::bigint as r3,
        sum(round(split_us * c4))::bigint as r4,
        sum(round(split_us * c5))::bigint as r5
    from part
    group by device_id, span_us, a // 60000000
)
select
    device_id,
    span_us,
    minute,
    start_us,
    end_us,
    observed_us,
    observed_us - split_us as hoarded_us,
    r0 as unobserved_us,
    r1 - r0 as gap_us,
    r2 - r1 as communication_us,
    r3 - r2 as stalled_us,
    r4 - r3 as below_roof_us,
    r5 - r4 as memory_roof_us
from summed;
