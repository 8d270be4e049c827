-- A row of oc_cut is an hour of the window that an edge of a step or of a price cuts: it is read from its minutes.
create or replace temp table oc_cut as
with edge as (
    select unnest(range($start_us, $end_us, $step_us)) as at_us
    union
    select $end_us
    union
    select start_us from device_price where start_us > $start_us and start_us < $end_us
)
select distinct at_us // 3600000000 * 3600000000 as hour_us
from edge
where at_us % 3600000000 <> 0;

set variable oc_cut_from_us = coalesce((select min(hour_us) from oc_cut), 0);

set variable oc_cut_until_us = coalesce((select max(hour_us) + 3600000000 from oc_cut), 0);

-- A row of oc_price is a device with a profile and a span of one price; prices of one price_id are equal, in units of
-- 10^-$places of the currency. What no rate covers has no currency.
create or replace temp table oc_price as
with price as (
    select
        device_id,
        profile,
        start_us,
        end_us,
        case when usd_per_gpu_hour is not null then currency end as currency,
        coalesce(
            (
                split_part(usd_per_gpu_hour, '.', 1) || rpad(split_part(usd_per_gpu_hour, '.', 2), $places, '0')
            )::hugeint,
            0
        ) as price
    from device_price
    where start_us < $end_us and end_us > $start_us
)
select *, dense_rank() over (order by currency, price)::integer as price_id
from price;

-- A row of oc_charge is a step, a device, the words of its owner, a share and a price (0: no rate): microseconds that
-- segments charge, from the first to the last of them.
create or replace temp table oc_charge as
with span as (
    select
        s.device_id,
        o.word_id,
        s.share_num,
        s.share_den,
        coalesce(p.price_id, 0) as price_id,
        greatest(s.start_us, p.start_us, $start_us) as start_us,
        least(s.end_us, p.end_us, $end_us) as end_us
    from segment s
    -- Ids of devices and runs are hashes that have their cluster in them.
    join oc_owner o on o.device_id = s.device_id and o.run_id = coalesce(s.run_id, 0)
    left join oc_price p
        on p.device_id = s.device_id and p.profile is not distinct from s.profile
        and p.start_us < s.end_us and p.end_us > s.start_us
    where s.start_us < $end_us and s.end_us > $start_us
),
stepped as (
    select
        * exclude (start_us, end_us),
        start_us as from_us,
        end_us as to_us,
        unnest(range((start_us - $start_us) // $step_us, (end_us - 1 - $start_us) // $step_us + 1)) as step
    from span
    where start_us < end_us
)
select
    step,
    word_id,
    device_id,
    share_num,
    share_den,
    price_id,
    min(greatest(from_us, $start_us + step * $step_us)) as first_us,
    max(least(to_us, $start_us + (step + 1) * $step_us)) as last_us,
    sum(least(to_us, $start_us + (step + 1) * $step_us) - greatest(from_us, $start_us + step * $step_us))::bigint as us
from stepped
group by step, word_id, device_id, share_num, share_den, price_id;

-- A row of oc_fact is a step, the words of an owner, a share and a price: the recorded activity while it was held, and what
-- findings claim of its below_roof time.
create or replace temp table oc_fact as
with booked as (
    select l.*, coalesce(c.claimed_us, 0) as claimed_us
    from ledger_hour l
    left join claimed_hour c
        on c.cluster = l.cluster and c.device_id = l.device_id and c.run_id = l.run_id and c.hour_us = l.hour_us
        and c.profile is not distinct from l.profile and c.share_num = l.share_num and c.share_den = l.share_den
    where l.run_id is not null and l.hour_us > $start_us - 3600000000 and l.hour_us < $end_us
),
fact as (
    select
        (hour_us - $start_us) // $step_us as step,
        hour_us as at_us,
        device_id,
        run_id,
        share_num,
        share_den,
        profile,
        hoarded_us,
        gap_us,
        communication_us,
        stalled_us,
        below_roof_us,
        memory_roof_us,
        compute_us,
        claimed_us
    from booked
    where hour_us >= $start_us and hour_us not in (select hour_us from oc_cut)
    union all
    select
        (greatest(m.start_us, $start_us) - $start_us) // $step_us,
        greatest(m.start_us, $start_us),
        m.device_id,
        s.run_id,
        s.share_num,
        s.share_den,
        s.profile,
        m.hoarded_us,
        m.gap_us,
        m.communication_us,
        m.stalled_us,
        m.below_roof_us,
        m.memory_roof_us,
        m.compute_us,
        coalesce(m.below_roof_us::hugeint * b.claimed_us // nullif(b.below_roof_us, 0), 0)::bigint
    from device_minute m
    join segment s
        on s.device_id = m.device_id and m.start_us >= s.start_us and m.start_us < s.end_us and s.run_id is not null
    left join booked b
        on b.device_id = m.device_id and b.run_id = s.run_id and b.hour_us = m.hour_us
        and b.profile is not distinct from s.profile and b.share_num = s.share_num and b.share_den = s.share_den
        and b.claimed_us > 0
    where m.hour_us >= getvariable('oc_cut_from_us') and m.hour_us < getvariable('oc_cut_until_us')
        and m.hour_us in (select hour_us from oc_cut)
        and m.start_us < $end_us and m.end_us > $start_us
        -- A minute that an edge of the window cuts counts where its larger part lies.
        and 2 * (least(m.end_us, $end_us) - greatest(m.start_us, $start_us)) >= m.end_us - m.start_us
)
select
    f.step,
    o.word_id,
    f.share_num,
    f.share_den,
    coalesce(p.price_id, 0) as price_id,
    sum(f.hoarded_us)::bigint as hoarded_us,
    sum(f.gap_us)::bigint as gap_us,
    sum(f.communication_us)::bigint as communication_us,
    sum(f.stalled_us)::bigint as stalled_us,
    sum(f.below_roof_us)::bigint as below_roof_us,
    sum(f.memory_roof_us)::bigint as memory_roof_us,
    sum(f.compute_us)::bigint as compute_us,
    sum(f.claimed_us)::bigint as claimed_us
from fact f
join oc_owner o on o.device_id = f.device_id and o.run_id = f.run_id
left join oc_price p
    on p.device_id = f.device_id and p.profile is not distinct from f.profile
    and p.start_us <= f.at_us and p.end_us > f.at_us
group by f.step, o.word_id, f.share_num, f.share_den, coalesce(p.price_id, 0);
