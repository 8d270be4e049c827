-- The rows of one day, or of the part of it that lies in the window: [$from_us, $to_us). Amounts are whole numbers: units are
-- device microseconds times share, in parts of 1 / $scale; prices are in units of 10^-$places.

-- A row of focus_segment is a segment of the day, cut at its ends.
create or replace temp table focus_segment as
select
    s.cluster,
    s.device_id,
    s.profile,
    s.run_id,
    case when s.run_id is null then s.free_bucket end as free_bucket,
    s.method,
    s.split,
    s.start_us,
    s.end_us,
    greatest(s.start_us, $from_us) as from_us,
    least(s.end_us, $to_us) as to_us,
    s.share_num * ($scale // s.share_den) as share
from segment s
where s.start_us < $to_us and s.end_us > $from_us and ($cluster is null or s.cluster = $cluster);

-- A row of focus_price is a device (with the MIG profile it had) and its part of the day at one price, NULL where it has none.
-- bill_id numbers what is billed as one: a GPU, or its slices, at one price. A price of up to 6 decimals leaves quantities as
-- many as make price times quantity exact at 12.
create or replace temp table focus_price as
with priced as (
    select
        u.cluster,
        u.device_id,
        u.profile,
        coalesce(d.gpu, d.device_id::varchar) as gpu,
        greatest(coalesce(p.start_us, $from_us), $from_us) as from_us,
        least(coalesce(p.end_us, $to_us), $to_us) as to_us,
        p.usd_per_gpu_hour as price_text,
        coalesce(p.list_price, p.usd_per_gpu_hour) as list_text,
        coalesce(p.contracted_price, p.usd_per_gpu_hour) as contracted_text,
        p.currency,
        p.pricing,
        p.sku,
        p.commitment_id,
        p.card,
        p.card_version,
        p.base_currency,
        p.base_price as base_text,
        d.pool,
        d.model,
        d.gi,
        d.node,
        d.gpu_index,
        e.region,
        e.zone
    from (select distinct cluster, device_id, profile from focus_segment) u
    join device d on d.device_id = u.device_id and d.cluster = u.cluster
    left join device_class c
        on c.device_id = u.device_id and c.profile is not distinct from u.profile and c.cluster = u.cluster
    left join class_price p
        on p.class_id = c.class_id and p.cluster = c.cluster and p.start_us < $to_us and p.end_us > $from_us
    left join focus_place e on e.cluster = d.cluster and e.node = d.node
    where ($pool is null or d.pool = $pool)
),
counted as (
    select
        *,
        greatest(
            length(rtrim(split_part(price_text, '.', 2), '0')),
            length(rtrim(split_part(list_text, '.', 2), '0')),
            length(rtrim(split_part(contracted_text, '.', 2), '0'))
        ) as decimals,
        case when decimals <= 6 then 12 - decimals else 12 end as quantity_places
    from priced
)
select
    *,
    row_number() over (order by cluster, device_id, profile, from_us) as price_id,
    dense_rank() over (
        order by cluster, gpu, from_us, to_us, price_text, list_text, contracted_text, currency, pricing, sku, commitment_id
    ) as bill_id,
    (
        split_part(price_text, '.', 1) || rpad(split_part(price_text, '.', 2), $places, '0')
    )::hugeint as price,
    (split_part(list_text, '.', 1) || rpad(split_part(list_text, '.', 2), $places, '0'))::hugeint as list_price,
    (
        split_part(contracted_text, '.', 1) || rpad(split_part(contracted_text, '.', 2), $places, '0')
    )::hugeint as contracted_price,
    ('1' || repeat('0', quantity_places))::hugeint as quantity_one,
    ('1' || repeat('0', 12 - quantity_places))::hugeint as quantity_step,
    ('1' || repeat('0', $places + quantity_places - 12))::hugeint as cost_step,
    case
        when base_text is null or price = 0 then price
        else (split_part(base_text, '.', 1) || rpad(split_part(base_text, '.', 2), $places, '0'))::hugeint
    end as base_price
from counted;

-- A row of focus_part is a device, its holder (or the bucket of what nobody held) and one price: its time.
create or replace temp table focus_part as
select
    p.price_id,
    s.run_id,
    s.free_bucket,
    max(s.method) as method,
    max(s.split) as split,
    sum(least(s.to_us, p.to_us) - greatest(s.from_us, p.from_us))::bigint as us,
    sum((least(s.to_us, p.to_us) - greatest(s.from_us, p.from_us))::hugeint * s.share) as units
from focus_segment s
join focus_price p
    on p.device_id = s.device_id and p.profile is not distinct from s.profile and p.cluster = s.cluster
    and p.from_us < s.to_us and p.to_us > s.from_us
group by p.price_id, s.run_id, s.free_bucket;

-- A row of focus_cut is an hour that a price or the window cuts.
create or replace temp table focus_cut as
select distinct edge // 3600000000 * 3600000000 as hour_us
from (select unnest([from_us, to_us]) as edge from focus_price)
where edge % 3600000000 <> 0;

-- As constants, so that only the row groups of these hours are read; without such hours nothing is.
set variable focus_cut_from_us = (select min(hour_us) from focus_cut);

set variable focus_cut_until_us = (select max(hour_us) from focus_cut);

-- A row of focus_bucket is a part that was held and its units by bucket, as far as they are booked. Hours that are cut come
-- from their minutes.
create or replace temp table focus_bucket as
with booked as (
    select
        p.price_id,
        l.run_id,
        l.share_num * ($scale // l.share_den) as share,
        l.hoarded_us,
        l.gap_us,
        l.communication_us,
        l.stalled_us,
        l.below_roof_us,
        l.memory_roof_us,
        l.compute_us
    from ledger_hour l
    join focus_price p
        on p.device_id = l.device_id and p.profile is not distinct from l.profile and p.cluster = l.cluster
        and p.from_us <= l.hour_us and p.to_us >= l.hour_us + 3600000000
    where l.run_id is not null and l.hour_us >= $from_us and l.hour_us < $to_us
    union all
    select
        p.price_id,
        s.run_id,
        s.share,
        m.hoarded_us * (least(m.end_us, p.to_us) - greatest(m.start_us, p.from_us)) // (m.end_us - m.start_us),
        m.gap_us * (least(m.end_us, p.to_us) - greatest(m.start_us, p.from_us)) // (m.end_us - m.start_us),
        m.communication_us * (least(m.end_us, p.to_us) - greatest(m.start_us, p.from_us)) // (m.end_us - m.start_us),
        m.stalled_us * (least(m.end_us, p.to_us) - greatest(m.start_us, p.from_us)) // (m.end_us - m.start_us),
        m.below_roof_us * (least(m.end_us, p.to_us) - greatest(m.start_us, p.from_us)) // (m.end_us - m.start_us),
        m.memory_roof_us * (least(m.end_us, p.to_us) - greatest(m.start_us, p.from_us)) // (m.end_us - m.start_us),
        m.compute_us * (least(m.end_us, p.to_us) - greatest(m.start_us, p.from_us)) // (m.end_us - m.start_us)
    from device_minute m
    join focus_cut using (hour_us)
    join focus_segment s
        on s.device_id = m.device_id and s.cluster = m.cluster and s.run_id is not null
        and m.start_us >= s.start_us and m.end_us <= s.end_us
    join focus_price p
        on p.device_id = s.device_id and p.profile is not distinct from s.profile and p.cluster = s.cluster
        and p.from_us < m.end_us and p.to_us > m.start_us
        -- What lies in a whole hour is booked above.
        and (p.from_us > m.hour_us or p.to_us < m.hour_us + 3600000000)
    where m.hour_us >= getvariable('focus_cut_from_us') and m.hour_us <= getvariable('focus_cut_until_us')
),
-- Microseconds are summed as they are: only the few sums need 128 bits.
shared as (
    select
        price_id,
        run_id,
        share::hugeint as share,
        sum(hoarded_us)::bigint as hoarded_us,
        sum(gap_us)::bigint as gap_us,
        sum(communication_us)::bigint as communication_us,
        sum(stalled_us)::bigint as stalled_us,
        sum(below_roof_us)::bigint as below_roof_us,
        sum(memory_roof_us)::bigint as memory_roof_us,
        sum(compute_us)::bigint as compute_us
    from booked
    group by price_id, run_id, share
)
select
    price_id,
    run_id,
    sum(hoarded_us * share) as hoarded,
    sum(gap_us * share) as gap,
    sum(communication_us * share) as communication,
    sum(stalled_us * share) as stalled,
    sum(below_roof_us * share) as below_roof,
    sum(memory_roof_us * share) as memory_roof,
    sum(compute_us * share) as compute
from shared
group by price_id, run_id;

-- A row of focus_active is a part that was held and how active its multiprocessors were, by the five-minute means in it.
create or replace temp table focus_active as
select
    p.price_id,
    s.run_id,
    sum(w.sm_active_ratio * w.covered_us) / sum(w.covered_us) as sm_active_ratio
from (
    select device_id, cluster, segment_start_us, start_us, sm_active_ratio, covered_us
    from device_window
    where hour_us > $from_us - 3600000000 and hour_us < $to_us
        and start_us >= $from_us and start_us < $to_us
        and sm_active_ratio is not null and covered_us > 0
) w
join focus_segment s
    on s.device_id = w.device_id and s.start_us = w.segment_start_us and s.cluster = w.cluster and s.run_id is not null
join focus_price p
    on p.device_id = s.device_id and p.profile is not distinct from s.profile and p.cluster = s.cluster
    and p.from_us <= w.start_us and p.to_us > w.start_us
group by p.price_id, s.run_id;

-- A row of focus_row is a row of the export. Its numbers are what cumulative rounding gives it of its origin's, so that the
-- rows of an origin add up to the origin, and each is less than one unit of the last decimal from its exact share:
-- quantities are in units of 1 / quantity_one, cost and ratio of 10^-12, consumed of 10^-6. An origin is a bill_id, and of
-- committed GPUs what was used or not.
create or replace temp table focus_row as
with origin as (
    select
        f.*,
        p.bill_id,
        p.price,
        p.list_price,
        p.contracted_price,
        p.quantity_one,
        p.cost_step,
        2 * p.bill_id + (case when p.commitment_id is not null and f.run_id is null then 1 else 0 end) as origin_id,
        sum(f.units) over (partition by origin_id) as whole,
        sum(f.units) over (
            partition by origin_id
            order by p.price_id, f.run_id, f.free_bucket
            rows between unbounded preceding and current row
        ) as upto,
        upto - f.units as before
    from focus_part f
    join focus_price p using (price_id)
    -- A process that used nothing of a shared GPU has no part in it.
    where p.price is not null and f.units > 0
),
quantity as (
    select
        *,
        (2 * upto * quantity_one + $scale * 3600000000) // (2 * $scale * 3600000000) as quantity_upto,
        (2 * before * quantity_one + $scale * 3600000000) // (2 * $scale * 3600000000) as quantity_before
    from origin
)
select
    q.*,
    quantity_upto - quantity_before as quantity,
    (2 * upto + $scale) // (2 * $scale) - (2 * before + $scale) // (2 * $scale) as consumed,
    (2 * upto * 1000000000000 + whole) // (2 * whole) - (2 * before * 1000000000000 + whole) // (2 * whole) as ratio,
    -- 10^12 / (3600 * 10^6) is 2500 / 9.
    (2 * upto * price * 2500 + $cost_den::hugeint) // (2 * $cost_den::hugeint) as effective_upto,
    (2 * before * price * 2500 + $cost_den::hugeint) // (2 * $cost_den::hugeint) as effective_before,
    effective_upto - effective_before as effective,
    (2 * quantity_upto * list_price + cost_step) // (2 * cost_step)
    - (2 * quantity_before * list_price + cost_step) // (2 * cost_step) as list,
    (2 * quantity_upto * contracted_price + cost_step) // (2 * cost_step)
    - (2 * quantity_before * contracted_price + cost_step) // (2 * cost_step) as contracted
from quantity q;
