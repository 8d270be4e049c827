"""Import kind `bill-focus`: bills of any provider in the FinOps Foundation's FOCUS format, versions 1.0 to 1.4."""

from __future__ import annotations

from collections.abc import Mapping

import pyarrow as pa
import pyarrow.compute as pc

from gpuwatch.collectors.bills.cells import Cells, wanted
from gpuwatch.collectors.bills.lines import BY_PROVIDER, key_of, lines, whole_number
from gpuwatch.collectors.bills.months import month_end, month_start
from gpuwatch.collectors.bills.tables import SUFFIXES
from gpuwatch.collectors.bills.values import by_gpu, by_value, ends, joined, json_key, tags_of, times, units
from gpuwatch.core.model import Rejects, Rows, Source
from gpuwatch.core.registry import importer

KIND = "bill-focus"
NEEDED = (
    ("BilledCost",),
    ("BillingCurrency",),
    ("ChargePeriodStart",),
    ("ChargePeriodEnd",),
    ("ChargeCategory",),
    ("ProviderName", "ServiceProviderName", "InvoiceIssuerName", "HostProviderName"),
)
INSTANCE_KEYS = ("InstanceType", "x_InstanceType", "ServiceType", "MachineType", "VmSize", "InstanceSize", "Shape")
"""Keys of SkuPriceDetails and x_SkuDetails with an instance type; ServiceType is Azure's."""
NAMING = (
    *("x_InstanceType", "SkuMeter", "x_SkuMeterName", "x_SkuMeterSubcategory", "x_UsageType", "ChargeDescription"),
    *("x_SkuDescription", "ResourceType", "x_ResourceType", "SkuId", "SkuPriceId", "x_SkuPartNumber"),
)
"""Columns that may name the instance type, in order of preference."""
OTHERS = (
    *("BillingAccountId", "SubAccountId", "InvoiceId", "BillingPeriodStart", "BillingPeriodEnd", "ResourceId"),
    *("ResourceName", "ResourceType", "ServiceName", "SkuId", "SkuPriceId", "SkuMeter", "SkuPriceDetails"),
    *("ChargeDescription", "ChargeClass", "RegionId", "PricingCategory", "CommitmentDiscountId"),
    *("CommitmentDiscountStatus", "CapacityReservationId", "CapacityReservationStatus", "EffectiveCost", "ListCost"),
    *("ContractedCost", "PricingQuantity", "PricingUnit", "ConsumedQuantity", "ConsumedUnit", "Tags"),
    *("x_SkuDetails", "x_LineItemId", "HostProviderName", *NAMING),
)
CATEGORIES = ("Usage", "Purchase", "Tax", "Credit", "Adjustment")
PROVIDERS = (
    ("aws", ("aws", "amazon")),
    ("azure", ("microsoft", "azure")),
    ("gcp", ("google", "gcp")),
    ("oci", ("oracle",)),
)
SOURCE_COLUMNS = {
    "billed_cost": ("BilledCost",),
    "effective_cost": ("EffectiveCost",),
    "list_cost": ("ListCost",),
    "contracted_cost": ("ContractedCost",),
    "quantity": ("PricingQuantity", "ConsumedQuantity"),
    "currency": ("BillingCurrency",),
    "start_us": ("ChargePeriodStart",),
    "end_us": ("ChargePeriodEnd",),
}
_WANT = wanted(OTHERS, NEEDED)


@importer(KIND, "FOCUS 1.0 to 1.4 of any provider: CSV or Parquet, .gz too", SUFFIXES)
def read_focus_bill(source: Source, rejects: Rejects) -> Rows:
    """Yields the lines of a FOCUS file. Its days of a sub-account replace those of older exports, except for
    providers whose exports add lines. Raises UnreadableInput.
    """
    yield from lines(source, rejects, KIND, BY_PROVIDER, _WANT, draft_columns, SOURCE_COLUMNS)


def draft_columns(cells: Cells) -> list[tuple[Mapping[str, pa.Array], pa.Array]]:
    """The columns of BILL in a FOCUS file."""
    details, kind = cells.get("SkuPriceDetails", "x_SkuDetails"), cells.get("ChargeCategory")
    category = by_value(kind, _category, pa.string())
    start_text, billed = cells.get("ChargePeriodStart"), cells.get("BilledCost")
    start = times(start_text)
    quantity = cells.get("PricingQuantity", "ConsumedQuantity")
    instance = pc.coalesce(cells.get("x_InstanceType"), json_key(details, *INSTANCE_KEYS))
    description = cells.get("ChargeDescription")
    unit_text = cells.get("PricingUnit", "ConsumedUnit")
    unit = units(unit_text)
    # Traffic and storage also name the instance type, but only what is billed by the hour is instance time. A line
    # without any unit has the cost of an instance, but no hours.
    timed = pc.fill_null(pc.equal(unit, "Hours"), True)
    named = joined([instance, *(cells.get(name) for name in NAMING)])
    columns = {
        "provider": _provider(cells),
        "account": cells.get("BillingAccountId"),
        "sub_account": cells.get("SubAccountId"),
        "invoice": cells.get("InvoiceId"),
        "billing_start_us": pc.coalesce(times(cells.get("BillingPeriodStart")), month_start(start)),
        "billing_end_us": pc.coalesce(ends(cells.get("BillingPeriodEnd"), inclusive_dates=False), month_end(start)),
        "start_us": start,
        "end_us": ends(cells.get("ChargePeriodEnd"), inclusive_dates=False),
        "resource": cells.get("ResourceId"),
        "resource_name": cells.get("ResourceName"),
        "service": cells.get("ServiceName"),
        "sku": cells.get("SkuId"),
        "instance_type": instance,
        "description": description,
        "region": cells.get("RegionId"),
        "category": category,
        "charge_type": kind,
        "pricing": cells.get("PricingCategory"),
        "commitment": cells.get("CommitmentDiscountId", "CapacityReservationId"),
        "commitment_status": cells.get("CommitmentDiscountStatus", "CapacityReservationStatus"),
        "billed_cost": billed,
        "effective_cost": cells.get("EffectiveCost"),
        "list_cost": cells.get("ListCost"),
        "contracted_cost": cells.get("ContractedCost"),
        "currency": cells.get("BillingCurrency"),
        "quantity": quantity,
        "unit": unit,
        "tags": tags_of(cells.get("Tags")),
        "gpu_count": pc.coalesce(
            by_gpu(unit_text),
            pc.if_else(timed, whole_number(json_key(details, "GpuCount", "x_GpuCount")), pa.scalar(None, pa.int32())),
        ),
        "gpu": pc.if_else(timed, named, pa.scalar(None, pa.string())),
        "key": key_of(
            cells.get("x_LineItemId"), cells.get("BillingAccountId"), cells.get("SubAccountId"), start_text,
            cells.get("ChargePeriodEnd"), cells.get("ResourceId"), cells.get("SkuPriceId"), cells.get("SkuId"), kind,
            description, cells.get("CommitmentDiscountId"), billed, cells.get("EffectiveCost"), quantity,
            cells.get("InvoiceId"), cells.get("ChargeClass"),
        ),
    }  # fmt: skip
    return [(columns, cells.lines)]


def _provider(cells: Cells) -> pa.Array:
    named = cells.get("ServiceProviderName", "ProviderName", "HostProviderName", "InvoiceIssuerName")
    return pc.coalesce(by_value(named, provider, pa.string()), pa.scalar("unknown"))


def provider(name: str) -> str:
    """aws, azure, gcp, oci, or the name itself in lower case."""
    lower = name.lower()
    return next((short for short, words in PROVIDERS if any(word in lower for word in words)), lower)


def _category(text: str) -> str:
    return next((name for name in CATEGORIES if name.lower() == text.lower()), "Adjustment")
