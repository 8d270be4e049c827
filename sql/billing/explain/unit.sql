-- Devices and prices of a charge, in the tables that sql/billing/ledger.sql reads: there each device at each price is a kind
-- of its own. Nothing comes from whole days, which know no devices.
create or replace temp table whole_day as
select cluster, day_us from rolled_day where false;

create or replace temp table fine_span as
select distinct cluster, $start_us::bigint as from_us, $end_us::bigint as to_us from device;

-- There is no hour between these: explain/bucket reads uncut hours from the ledger.
set variable fine_from_us = $end_us::bigint;

set variable fine_until_us = $start_us::bigint;

set variable quiet_from_us = 0;

set variable quiet_until_us = 0;

-- A row of unit is a device, with the MIG profile it had.
create or replace temp table unit as
with known as (
    select cluster, device_id, profile, class_id from device_class
    union all
    select distinct s.cluster, s.device_id, s.profile, null
    from segment s
    where s.start_us < $end_us and s.end_us > $start_us
        and not exists (
            select 1
            from device_class c
            where c.device_id = s.device_id and c.profile is not distinct from s.profile and c.cluster = s.cluster
        )
)
select
    row_number() over (order by k.cluster, d.node, d.gpu, d.gi, k.profile, k.device_id) as unit_id,
    k.cluster,
    k.device_id,
    k.profile,
    k.class_id,
    d.node,
    d.gpu,
    d.gi,
    d.gpu_index,
    d.measured or exists (
        select 1 from device s where s.parent_id = d.device_id and s.cluster = d.cluster and s.measured
    ) as measured,
    d.pool,
    d.model,
    case when d.gi >= 0 then d.gpu || '/GI-' || d.gi when d.profile is not null then d.gpu end as slice
from known k
left join device d on d.device_id = k.device_id and d.cluster = k.cluster
where ($cluster is null or k.cluster = $cluster)
    and (not $by_cluster or k.cluster is not distinct from $of_cluster)
    and (not $by_mig_profile or k.profile is not distinct from $of_mig_profile)
    and (not $by_slice or slice is not distinct from $of_slice);

-- A row of priced_unit is a unit and a span of one price; spans of one kind_id have the same words.
create or replace temp table priced_unit as
with price as (
    select
        *,
        dense_rank() over (
            order by
                usd_per_gpu_hour, currency, pricing, sku, commitment_id, rate, card, card_version, base_price,
                base_currency, fx_rate, fx_from_us
        ) as price_id
    from class_price
    where start_us < $end_us and end_us > $start_us
),
named as (
    select
        u.unit_id,
        u.unit_id * 1000000 + p.price_id as kind_id,
        p.pool as pool,
        p.model as gpu_model,
        p.* exclude (cluster, class_id, pool, model, profile, covered, price_id)
    from unit u
    join price p on p.class_id = u.class_id and p.cluster = u.cluster
    union all by name
    select
        unit_id,
        unit_id * 1000000 as kind_id,
        pool,
        model as gpu_model,
        $start_us as start_us,
        $end_us as end_us
    from unit
    where class_id is null
)
select
    *,
    coalesce(
        (
            split_part(usd_per_gpu_hour, '.', 1) || rpad(split_part(usd_per_gpu_hour, '.', 2), $places, '0')
        )::hugeint,
        0
    ) as price
from named
where (usd_per_gpu_hour is null) = ($currency is null)
    and currency is not distinct from $currency
    and ($pool is null or pool = $pool)
    and (not $by_pool or pool is not distinct from $of_pool)
    and (not $by_gpu_model or gpu_model is not distinct from $of_gpu_model);
