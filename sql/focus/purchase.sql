-- A row is what a part of the day cost of GPUs that are paid for whether they are used or not: owned, or committed to. Their
-- usage rows are billed nothing, this row is, and costs nothing beside them. Numbers are in units of 10^-12.
select
    p.cluster as "BillingAccountId",
    p.cluster as "BillingAccountName",
    p.currency as "BillingCurrency",
    sum(f.effective) as "BilledCost",
    0::hugeint as "EffectiveCost",
    sum(f.contracted) as "ContractedCost",
    sum(f.list) as "ListCost",
    max(p.contracted_unit) as "ContractedUnitPrice",
    max(p.list_unit) as "ListUnitPrice",
    sum(f.quantity * p.quantity_step) as "PricingQuantity",
    p.from_us // 1000000 * 1000000 as "ChargePeriodStart",
    (p.to_us + 999999) // 1000000 * 1000000 as "ChargePeriodEnd",
    case when p.commitment_id is null then 'Cost of owned GPUs: ' else 'Cost of committed GPUs: ' end || min(p.description)
        as "ChargeDescription",
    case when p.commitment_id is not null then 'Usage' end as "CommitmentDiscountCategory",
    p.commitment_id as "CommitmentDiscountId",
    p.commitment_id as "CommitmentDiscountName",
    case when p.commitment_id is not null then sum(f.quantity * p.quantity_step) end as "CommitmentDiscountQuantity",
    case when p.commitment_id is not null then 'Reservation' end as "CommitmentDiscountType",
    case when p.commitment_id is not null then 'GPU-Hours' end as "CommitmentDiscountUnit",
    case when p.commitment_id is null then 'On-premises' end as "HostProviderName",
    p.pricing_category as "PricingCategory",
    coalesce(p.base_currency, p.currency) as "PricingCurrency",
    max(p.base_contracted_unit) as "PricingCurrencyContractedUnitPrice",
    0::hugeint as "PricingCurrencyEffectiveCost",
    max(p.base_list_unit) as "PricingCurrencyListUnitPrice",
    p.commitment_id as "ResourceId",
    case when p.commitment_id is not null then 'Reservation' end as "ResourceType",
    p.sku_id as "SkuId",
    max(p.sku_details) as "SkuPriceDetails",
    p.sku_price_id as "SkuPriceId",
    p.cluster as "x_Cluster",
    p.model as "x_GpuModel",
    p.pool as "x_Pool",
    p.pricing as "x_Pricing",
    '__platform__' as "x_Team"
from focus_row f
join focus_bill p using (price_id)
where p.prepaid
group by
    p.cluster, p.currency, p.base_currency, p.from_us, p.to_us, p.commitment_id, p.pricing, p.pricing_category, p.sku_id,
    p.sku_price_id, p.model, p.pool
order by all;
