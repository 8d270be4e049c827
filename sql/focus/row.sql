-- A row of focus_run is a run of the day, its team, and its labels with gpuwatch's own words as tags.
create or replace temp table focus_run as
select
    r.run_id,
    coalesce(t.team, '__unallocated__') as team,
    r.run_key,
    r.job_id,
    r.user_name,
    r.account,
    r.queue,
    r.namespace,
    json_merge_patch(
        case when json_valid(r.labels) and json_type(r.labels) = 'OBJECT' then r.labels else '{}' end,
        json_object(
            'gpuwatch/team', coalesce(t.team, '__unallocated__'),
            'gpuwatch/cluster', r.cluster,
            'gpuwatch/scheduler', r.scheduler,
            'gpuwatch/user', r.user_name,
            'gpuwatch/account', r.account,
            'gpuwatch/queue', r.queue,
            'gpuwatch/namespace', r.namespace,
            'gpuwatch/job', r.job_id
        )
    )::varchar as tags
from run r
left join run_team t on t.run_id = r.run_id and t.cluster = r.cluster
where r.run_id in (select run_id from focus_row);

-- A row of focus_bill is what the rows of one device at one price have in common. Amounts are in units of 10^-12.
create or replace temp table focus_bill as
with base as (
    select
        *,
        -- The price before it was converted, over the price; both 1 where the price is nothing.
        case when price = 0 then 1 else base_price end as base_num,
        case when price = 0 then 1 else price end as base_den
    from focus_price
    where price is not null
)
select
    b.*,
    commitment_id is not null or pricing is not distinct from 'owned' as prepaid,
    (2 * list_price * 1000000000000 + $price_one::hugeint) // (2 * $price_one::hugeint) as list_unit,
    (2 * contracted_price * 1000000000000 + $price_one::hugeint) // (2 * $price_one::hugeint) as contracted_unit,
    (2 * list_unit * base_num + base_den) // (2 * base_den) as base_list_unit,
    (2 * contracted_unit * base_num + base_den) // (2 * base_den) as base_contracted_unit,
    case pricing
        when 'on_demand' then 'Standard'
        when 'reserved' then 'Committed'
        when 'spot' then 'Dynamic'
        else 'Other'
    end as pricing_category,
    replace(coalesce(pricing, 'price'), '_', '-') as pricing_word,
    'GPU time of ' || coalesce(model, 'a GPU of unknown model') || coalesce(' in ' || pool, '')
    || ', ' || pricing_word || ' at ' || price_text || ' ' || currency || ' a GPU-hour' as description,
    coalesce(node || coalesce(':' || gpu_index, ''), gpu) as resource_name,
    coalesce(sku, 'gpu-' || coalesce(trim(regexp_replace(lower(model), '[^a-z0-9]+', '-', 'g'), '-'), 'unknown')) as sku_id,
    sku_id || '/' || pricing_word || '/' || price_text || '-' || currency
    || case when list_text <> price_text then '/list-' || list_text else '' end
    || case when contracted_text <> price_text then '/contracted-' || contracted_text else '' end as sku_price_id,
    json_object('GpuCount', 1, 'x_GpuModel', model, 'x_Pricing', pricing)::varchar as sku_details
from base b;

-- A row is a row of the export: columns of every version of FOCUS by their names, and gpuwatch's own. Numbers are in units
-- of 10^-12, times in microseconds.
with divided as (
    select
        f.*,
        f.quantity * p.quantity_step as hours,
        coalesce(b.hoarded, 0) as c1,
        c1 + coalesce(b.gap, 0) as c2,
        c2 + coalesce(b.communication, 0) as c3,
        c3 + coalesce(b.stalled, 0) as c4,
        c4 + coalesce(b.below_roof, 0) as c5,
        c5 + coalesce(b.memory_roof, 0) as c6,
        least(c6 + coalesce(b.compute, 0), f.units) as seen,
        -- Cumulative rounding in the order of the buckets; what is left of the row was not observed.
        (2 * hours * least(c1, f.units) + f.units) // (2 * f.units) as h1,
        (2 * hours * least(c2, f.units) + f.units) // (2 * f.units) as h2,
        (2 * hours * least(c3, f.units) + f.units) // (2 * f.units) as h3,
        (2 * hours * least(c4, f.units) + f.units) // (2 * f.units) as h4,
        (2 * hours * least(c5, f.units) + f.units) // (2 * f.units) as h5,
        (2 * hours * least(c6, f.units) + f.units) // (2 * f.units) as h6,
        (2 * hours * seen + f.units) // (2 * f.units) as h7,
        f.run_id is not null as held,
        a.sm_active_ratio
    from focus_row f
    join focus_bill p using (price_id)
    left join focus_bucket b on b.price_id = f.price_id and b.run_id = f.run_id
    left join focus_active a on a.price_id = f.price_id and a.run_id = f.run_id
)
select
    p.zone as "AvailabilityZone",
    case when p.prepaid then 0::hugeint else f.effective end as "BilledCost",
    p.cluster as "BillingAccountId",
    p.cluster as "BillingAccountName",
    p.currency as "BillingCurrency",
    p.description as "ChargeDescription",
    p.from_us // 1000000 * 1000000 as "ChargePeriodStart",
    (p.to_us + 999999) // 1000000 * 1000000 as "ChargePeriodEnd",
    case when p.commitment_id is not null then 'Usage' end as "CommitmentDiscountCategory",
    p.commitment_id as "CommitmentDiscountId",
    p.commitment_id as "CommitmentDiscountName",
    case when p.commitment_id is not null then f.hours end as "CommitmentDiscountQuantity",
    case when p.commitment_id is not null then case when f.held then 'Used' else 'Unused' end end
        as "CommitmentDiscountStatus",
    case when p.commitment_id is not null then 'Reservation' end as "CommitmentDiscountType",
    case when p.commitment_id is not null then 'GPU-Hours' end as "CommitmentDiscountUnit",
    case when p.commitment_id is not null then '{"CommitmentPrograms":[{"ProgramType":"Reservation"}]}' end
        as "CommitmentProgramEligibilityDetails",
    case when f.held or p.commitment_id is null then f.consumed * 1000000 end as "ConsumedQuantity",
    case when f.held or p.commitment_id is null then 'GPU-Seconds' end as "ConsumedUnit",
    f.contracted as "ContractedCost",
    p.contracted_unit as "ContractedUnitPrice",
    f.effective as "EffectiveCost",
    case when p.pricing = 'owned' then 'On-premises' end as "HostProviderName",
    f.list as "ListCost",
    p.list_unit as "ListUnitPrice",
    p.pricing_category as "PricingCategory",
    coalesce(p.base_currency, p.currency) as "PricingCurrency",
    p.base_contracted_unit as "PricingCurrencyContractedUnitPrice",
    (2 * f.effective_upto * p.base_num + p.base_den) // (2 * p.base_den)
    - (2 * f.effective_before * p.base_num + p.base_den) // (2 * p.base_den) as "PricingCurrencyEffectiveCost",
    p.base_list_unit as "PricingCurrencyListUnitPrice",
    f.hours as "PricingQuantity",
    p.region as "RegionId",
    p.region as "RegionName",
    p.gpu as "ResourceId",
    p.resource_name as "ResourceName",
    p.sku_id as "SkuId",
    p.sku_details as "SkuPriceDetails",
    p.sku_price_id as "SkuPriceId",
    r.team as "SubAccountId",
    r.team as "SubAccountName",
    case when f.held then 'Team' end as "SubAccountType",
    'gpuwatch:' || coalesce(f.method, 'time') || '-share' || coalesce('.' || f.split || '-split', '') || ':v1'
        as "AllocatedMethodId",
    '{"Elements":[{"AllocatedRatio":'
    || (f.ratio::decimal(26, 0) * 0.000000000001::decimal(12, 12))
    || ',"UsageUnit":"GPU-Hours","UsageQuantity":'
    || (f.hours::decimal(26, 0) * 0.000000000001::decimal(12, 12))
    || coalesce(',"x_MigProfile":' || to_json(p.profile), '')
    || coalesce(',"x_Bucket":' || to_json(f.free_bucket), '')
    || '}]}' as "AllocatedMethodDetails",
    r.run_key || coalesce('/GI-' || case when p.gi >= 0 then p.gi end, '') as "AllocatedResourceId",
    r.job_id as "AllocatedResourceName",
    r.tags as "AllocatedTags",
    r.account as "x_Account",
    f.free_bucket as "x_Bucket",
    p.cluster as "x_Cluster",
    case when f.held and 10 * f.seen >= f.units and f.seen > 0
        then (2 * (f.seen - least(f.c5, f.units)) * 1000000000000 + f.seen) // (2 * f.seen)
    end as "x_EffectiveRatio",
    p.model as "x_GpuModel",
    p.gpu as "x_GpuUuid",
    case when f.free_bucket = 'schedulable' then f.hours else 0 end as "x_HoursSchedulable",
    case when f.free_bucket = 'stranded' then f.hours else 0 end as "x_HoursStranded",
    case when f.free_bucket = 'out_of_service' then f.hours else 0 end as "x_HoursOutOfService",
    case when f.free_bucket = 'mig_remainder' then f.hours else 0 end as "x_HoursMigRemainder",
    case when f.held then f.hours - f.h7 else 0 end as "x_HoursUnobserved",
    f.h1 as "x_HoursHoarded",
    f.h2 - f.h1 as "x_HoursGap",
    f.h3 - f.h2 as "x_HoursCommunication",
    f.h4 - f.h3 as "x_HoursStalled",
    f.h5 - f.h4 as "x_HoursBelowRoof",
    f.h6 - f.h5 as "x_HoursMemoryRoof",
    f.h7 - f.h6 as "x_HoursCompute",
    r.job_id as "x_Job",
    p.profile as "x_MigProfile",
    r.namespace as "x_Namespace",
    p.node as "x_Node",
    p.pool as "x_Pool",
    p.pricing as "x_Pricing",
    r.queue as "x_Queue",
    p.card || ':v' || p.card_version as "x_RateVersion",
    (2 * f.units * 1000000000000 + f.us * $scale::hugeint) // (2 * f.us * $scale::hugeint) as "x_Share",
    (f.sm_active_ratio * 1000000)::bigint::hugeint * 1000000 as "x_SmActiveRatio",
    coalesce(r.team, '__platform__') as "x_Team",
    r.user_name as "x_User",
    case
        when not f.held then f.effective
        when f.seen > 0 then (2 * f.effective * least(f.c5, f.units) + f.units) // (2 * f.units)
    end as "x_WasteCost"
from divided f
join focus_bill p using (price_id)
left join focus_run r on r.run_id = f.run_id
where $teams::varchar[] is null or list_contains($teams::varchar[], coalesce(r.team, '__platform__'))
order by f.origin_id, f.price_id, f.run_id, f.free_bucket;
