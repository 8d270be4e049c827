-- The rows of one day, or of the part of it that lies in the window: [$from_us, $to_us). Amounts are whole numbers: units are
-- device microseconds times share, in parts of 1 / $scale; prices are in units of 10^-$places.

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
    from (
        select distinct cluster, device_id, profile
        from segment
        where start_us < $to_us and end_us > $from_us and ($cluster is null or cluster = $cluster)
    ) u
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

-- A row of focus_cut is an hour that a price or the window cuts.
create or replace temp table focus_cut as
select distinct edge // 3600000000 * 3600000000 as hour_us
from (select unnest([from_us, to_us]) as edge from focus_price)
where edge % 3600000000 <> 0;

-- As constants, so that only the row groups of these hours are read; without such hours nothing is.
set variable focus_cut_from_us = (select min(hour_us) from focus_cut);

set variable focus_cut_until_us = (select max(hour_us) from focus_cut);
