-- A row of priced_device is a device (with the MIG profile it had), a span of one price, and its kind: all that is asked
-- for of a device, as one number, so that sums are made over numbers and words are joined to the few results.
-- price is in units of 10^-$places. lacks: no rate covers the span; the kind then names what lacks one.
create or replace temp table priced_device as
with price as (
    select cluster, device_id, profile, start_us, end_us, usd_per_gpu_hour, currency
    from device_price
    where start_us < $end_us and end_us > $start_us
    union all
    -- What appeared since the last pricing has no price yet; its time is there all the same.
    select distinct s.cluster, s.device_id, s.profile, $start_us, $end_us, null, null
    from segment s
    where s.start_us < $end_us and s.end_us > $start_us
        and not exists (
            select 1
            from device_price p
            where p.device_id = s.device_id and p.profile is not distinct from s.profile and p.cluster = s.cluster
        )
),
named as (
    select
        p.cluster,
        p.device_id,
        p.profile,
        p.start_us,
        p.end_us,
        p.currency,
        p.usd_per_gpu_hour is null as lacks,
        coalesce(
            (
                split_part(p.usd_per_gpu_hour, '.', 1)
                || rpad(split_part(p.usd_per_gpu_hour, '.', 2), $places, '0')
            )::hugeint,
            0
        ) as price,
        d.measured
        or exists (
            select 1
            from device s
            where s.parent_id = d.device_id and s.cluster = d.cluster and s.measured
        ) as reporting,
        case when $by_gpu_model or lacks then d.model end as gpu_model,
        case when $by_mig_profile or lacks then p.profile end as mig_profile,
        case when $by_slice and d.gi >= 0 then d.gpu || '/GI-' || d.gi end as slice,
        case when $by_cluster or lacks then p.cluster end as in_cluster,
        case when $by_pool or lacks then d.pool end as pool
    from price p
    join device d on d.device_id = p.device_id and d.cluster = p.cluster
    where $cluster is null or p.cluster = $cluster
)
select
    *,
    dense_rank() over (
        order by lacks, price, currency, reporting, gpu_model, mig_profile, slice, in_cluster, pool
    )::integer as kind_id
from named;

-- A row of kind is what one such number stands for.
create or replace temp table kind as
select distinct
    kind_id,
    lacks,
    price,
    currency,
    reporting,
    gpu_model,
    mig_profile,
    slice,
    in_cluster as cluster,
    pool
from priced_device;
