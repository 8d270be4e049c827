"""Columns of the FOCUS export: which ones each version of the format has, in what order, and what kind of value."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

VERSIONS = ("1.2", "1.4")
PLATFORM = "GPU Platform"
"""Who provides, publishes and invoices: the company's own platform, not the cloud or vendor behind it."""

HOURS = (
    "x_HoursSchedulable", "x_HoursStranded", "x_HoursOutOfService", "x_HoursMigRemainder", "x_HoursUnobserved",
    "x_HoursHoarded", "x_HoursGap", "x_HoursCommunication", "x_HoursStalled", "x_HoursBelowRoof",
    "x_HoursMemoryRoof", "x_HoursCompute",
)  # fmt: skip
"""GPU-hours of a row in each bucket of the ledger."""
TIMES = frozenset(("BillingPeriodEnd", "BillingPeriodStart", "ChargePeriodEnd", "ChargePeriodStart"))
NUMBERS = frozenset(
    (
        "BilledCost",
        "CommitmentDiscountQuantity",
        "ConsumedQuantity",
        "ContractedCost",
        "ContractedUnitPrice",
        "EffectiveCost",
        "ListCost",
        "ListUnitPrice",
        "PricingCurrencyContractedUnitPrice",
        "PricingCurrencyEffectiveCost",
        "PricingCurrencyListUnitPrice",
        "PricingQuantity",
        "x_EffectiveRatio",
        *HOURS,
        "x_Share",
        "x_SmActiveRatio",
        "x_WasteCost",
    )
)
"""Decimals with PLACES places."""
PLACES = 12
DIGITS = 38

_COMMON = [
    "AvailabilityZone", "BilledCost", "BillingAccountId", "BillingAccountName", "BillingAccountType",
    "BillingCurrency", "BillingPeriodEnd", "BillingPeriodStart", "CapacityReservationId",
    "CapacityReservationStatus", "ChargeCategory", "ChargeClass", "ChargeDescription", "ChargeFrequency",
    "ChargePeriodEnd", "ChargePeriodStart", "CommitmentDiscountCategory", "CommitmentDiscountId",
    "CommitmentDiscountName", "CommitmentDiscountQuantity", "CommitmentDiscountStatus", "CommitmentDiscountType",
    "CommitmentDiscountUnit", "ConsumedQuantity", "ConsumedUnit", "ContractedCost", "ContractedUnitPrice",
    "EffectiveCost", "InvoiceId", "InvoiceIssuerName", "ListCost", "ListUnitPrice", "PricingCategory",
    "PricingCurrency", "PricingCurrencyContractedUnitPrice", "PricingCurrencyEffectiveCost",
    "PricingCurrencyListUnitPrice", "PricingQuantity", "PricingUnit", "RegionId", "RegionName", "ResourceId",
    "ResourceName", "ResourceType", "ServiceCategory", "ServiceName", "ServiceSubcategory", "SkuId", "SkuMeter",
    "SkuPriceDetails", "SkuPriceId", "SubAccountId", "SubAccountName", "SubAccountType", "Tags",
]  # fmt: skip
_ALLOCATED = [
    "AllocatedMethodDetails",
    "AllocatedMethodId",
    "AllocatedResourceId",
    "AllocatedResourceName",
    "AllocatedTags",
]
_SINCE_1_3 = ["CommitmentProgramEligibilityDetails", "ContractApplied", "HostProviderName", "InvoiceDetailId"]
_SINCE_1_3 += ["ServiceProviderName"]
_OWN = [
    "x_Cluster", "x_Pool", "x_Node", "x_GpuModel", "x_GpuUuid", "x_MigProfile", "x_Share", "x_Bucket", "x_Team",
    "x_User", "x_Account", "x_Queue", "x_Namespace", "x_Job", "x_Pricing", "x_RateVersion", "x_Policy",
    "x_SmActiveRatio", "x_EffectiveRatio", "x_WasteCost", *HOURS,
]  # fmt: skip

FOCUS: Mapping[str, tuple[str, ...]] = {
    "1.2": tuple(sorted((*_COMMON, "ProviderName", "PublisherName"))),
    "1.4": tuple(sorted((*_COMMON, *_ALLOCATED, *_SINCE_1_3))),
}
"""Columns that the format defines (Cost and Usage), by version."""

OWN: Mapping[str, tuple[str, ...]] = {"1.2": (*(f"x_{name}" for name in _ALLOCATED), *_OWN), "1.4": tuple(_OWN)}
"""Columns that follow them: 1.2 knows no split cost allocation, so that its columns have gpuwatch's prefix there."""

CONSTANTS: Mapping[str, str] = {
    "BillingAccountType": "Cluster", "InvoiceIssuerName": PLATFORM, "ProviderName": PLATFORM,
    "PublisherName": PLATFORM, "ServiceCategory": "Compute", "ServiceName": PLATFORM,
    "ServiceProviderName": PLATFORM, "ServiceSubcategory": "Virtual Machines",
}  # fmt: skip
"""What is the same in every row."""

USAGE: Mapping[str, str] = {
    "ChargeCategory": "Usage",
    "ChargeFrequency": "Usage-Based",
    "PricingUnit": "GPU-Hours",
    "SkuMeter": "GPU time",
}
PURCHASE: Mapping[str, str] = {
    "ChargeCategory": "Purchase",
    "ChargeFrequency": "Recurring",
    "PricingUnit": "GPU-Hours",
    "SkuMeter": "GPU time",
}
ADJUSTMENT: Mapping[str, str] = {"ChargeCategory": "Adjustment", "ChargeFrequency": "One-Time"}
CORRECTION: Mapping[str, str] = {
    "ChargeCategory": "Usage",
    "ChargeClass": "Correction",
    "ChargeFrequency": "Usage-Based",
    "PricingUnit": "GPU-Hours",
    "ConsumedUnit": "GPU-Seconds",
}
"""What is the same in every row of a kind."""


def columns(version: str) -> Sequence[str]:
    """All columns of a version: the format's own first, each once."""
    return (*FOCUS[version], *OWN[version])


def source(version: str, name: str) -> str:
    """The name under which sql/focus says a column. The tags of a job are Tags before there were AllocatedTags."""
    if version == "1.2" and name == "Tags":
        return "AllocatedTags"
    if version == "1.2" and name.startswith("x_Allocated"):
        return name.removeprefix("x_")
    return name
