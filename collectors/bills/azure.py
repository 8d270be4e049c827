"""Import kind `bill-azure`: cost details of Azure, actual or amortized, also of enterprise agreements."""

from __future__ import annotations

from collections.abc import Mapping

import pyarrow as pa
import pyarrow.compute as pc

from gpuwatch.collectors.bills.cells import Cells, wanted
from gpuwatch.collectors.bills.lines import DAYS, amounts, key_of, lines, zero
from gpuwatch.collectors.bills.months import month_start
from gpuwatch.collectors.bills.tables import SUFFIXES
from gpuwatch.collectors.bills.values import ends, joined, json_key, one_of, same, tags_of, times, units, words
from gpuwatch.core.bill import MONEY
from gpuwatch.core.model import Rejects, Rows, Source
from gpuwatch.core.registry import importer

KIND = "bill-azure"
NEEDED = (
    ("Date", "UsageDateTime", "UsageDate"),
    ("CostInBillingCurrency", "Cost", "PreTaxCost"),
    ("BillingCurrencyCode", "BillingCurrency", "Currency"),
    ("MeterCategory",),
    ("ChargeType",),
)
OTHERS = (
    *("BillingAccountId", "BillingProfileId", "SubscriptionId", "SubscriptionGuid", "InvoiceId", "InvoiceNumber"),
    *("BillingPeriodStartDate", "BillingPeriodEndDate", "ResourceId", "InstanceId", "InstanceName", "ResourceName"),
    *("MeterName", "MeterSubCategory", "MeterId", "Product", "ProductName", "PartNumber", "ResourceLocation"),
    *("ResourceLocationNormalized", "Location", "PricingModel", "ReservationId", "BenefitId", "Quantity"),
    *("UsageQuantity", "UnitOfMeasure", "AdditionalInfo", "Tags", "ConsumedService", "ServiceFamily"),
)
CATEGORIES = {
    **dict.fromkeys(("usage", "unusedreservation", "unusedsavingsplan"), "Usage"),
    "purchase": "Purchase",
    "tax": "Tax",
    "credit": "Credit",
}
OTHER_CATEGORY = "Adjustment"
"""Refunds and rounding."""
PRICINGS = {
    "ondemand": "Standard",
    "spot": "Dynamic",
    **dict.fromkeys(("reservation", "savingsplan", "savings plan"), "Committed"),
}
UNUSED = ("UnusedReservation", "UnusedSavingsPlan")
SOURCE_COLUMNS = {
    "billed_cost": ("CostInBillingCurrency", "Cost", "PreTaxCost"),
    "effective_cost": ("CostInBillingCurrency", "Cost", "PreTaxCost"),
    "quantity": ("Quantity", "UsageQuantity"),
    "currency": ("BillingCurrencyCode", "BillingCurrency", "Currency"),
    "start_us": ("Date", "UsageDateTime", "UsageDate"),
    "end_us": ("Date", "UsageDateTime", "UsageDate"),
}
_WANT = wanted(OTHERS, NEEDED)


@importer(
    KIND, "Azure cost details, actual or amortized, or of an enterprise agreement: CSV or Parquet, .gz too", SUFFIXES
)
def read_azure_bill(source: Source, rejects: Rejects) -> Rows:
    """Yields the lines of an Azure export, whose days replace those of older ones. Raises UnreadableInput.

    Actual and amortized exports are distinguished by line: hours covered by a reservation or savings plan only have a
    cost in an amortized export, where it is their effective_cost and they are billed nothing; purchases are billed and
    have no effective_cost. Dates are whole UTC days, and the last day of a month is included.
    """
    yield from lines(source, rejects, KIND, DAYS, _WANT, draft_columns, SOURCE_COLUMNS)


def draft_columns(cells: Cells) -> list[tuple[Mapping[str, pa.Array], pa.Array]]:
    """The columns of BILL in an Azure export."""
    kind, model = cells.get("ChargeType"), cells.get("PricingModel")
    date = cells.get("Date", "UsageDateTime", "UsageDate")
    cost = cells.get("CostInBillingCurrency", "Cost", "PreTaxCost")
    info, meter, category = cells.get("AdditionalInfo"), cells.get("MeterName"), cells.get("MeterCategory")
    instance = json_key(info, "ServiceType")
    commitment = cells.get("ReservationId", "BenefitId")
    start = times(date)
    machine = one_of(category, ("Virtual Machines", "Virtual Machines Licenses"))
    billed, effective = _costs(cells, kind, model, commitment, cost)
    columns = {
        "provider": same("azure", cells.rows),
        "account": cells.get("BillingAccountId", "BillingProfileId", "SubscriptionId", "SubscriptionGuid"),
        "sub_account": cells.get("SubscriptionId", "SubscriptionGuid"),
        "invoice": cells.get("InvoiceId", "InvoiceNumber"),
        "billing_start_us": pc.coalesce(times(cells.get("BillingPeriodStartDate")), month_start(start)),
        "billing_end_us": ends(cells.get("BillingPeriodEndDate"), inclusive_dates=True),
        "start_us": start,
        "end_us": ends(date, inclusive_dates=True),
        "resource": cells.get("ResourceId", "InstanceId"),
        "resource_name": cells.get("ResourceName", "InstanceName"),
        "service": category,
        "sku": cells.get("MeterId", "PartNumber"),
        "instance_type": instance,
        "description": cells.get("ProductName", "Product", "MeterName"),
        "region": cells.get("ResourceLocationNormalized", "ResourceLocation", "Location"),
        "category": words(kind, CATEGORIES, OTHER_CATEGORY),
        "charge_type": kind,
        "pricing": words(model, PRICINGS, "Other"),
        "commitment": commitment,
        "commitment_status": _status(kind, commitment),
        "billed_cost": billed,
        "effective_cost": effective,
        "currency": cells.get("BillingCurrencyCode", "BillingCurrency", "Currency"),
        "quantity": cells.get("Quantity", "UsageQuantity"),
        "unit": units(cells.get("UnitOfMeasure")),
        "tags": tags_of(cells.get("Tags")),
        "gpu": pc.if_else(machine, joined([instance, meter]), pa.scalar(None, pa.string())),
        "key": key_of(cells.get("ResourceId", "InstanceId"), cells.get("MeterId", "PartNumber"), date, kind, cost),
    }
    return [(columns, cells.lines)]


def _costs(
    cells: Cells, kind: pa.Array, model: pa.Array, commitment: pa.Array, cost: pa.Array
) -> tuple[pa.Array, pa.Array]:
    """(billed as text or amount, effective): what a commitment covers was billed when the commitment was bought."""
    unused = one_of(kind, UNUSED)
    covered = pc.and_(one_of(kind, ("Usage",)), pc.equal(words(model, PRICINGS, "Other"), "Committed"))
    covered = pc.or_(pc.fill_null(covered, False), unused)
    bought = pc.and_(one_of(kind, ("Purchase", "Refund")), pc.is_valid(commitment))
    amount = amounts(cost)
    nothing = pc.equal(amount, pa.scalar(0).cast(MONEY))
    # A covered hour without a cost is from an actual export, which lacks its share of the commitment.
    spread = pc.if_else(nothing, pa.scalar(None, MONEY), amount)
    billed = pc.if_else(covered, "0", cost)
    effective = pc.if_else(covered, spread, pc.if_else(bought, zero(cells.rows), amount))
    return billed, effective


def _status(kind: pa.Array, commitment: pa.Array) -> pa.Array:
    used = pc.and_(one_of(kind, ("Usage",)), pc.is_valid(commitment))
    status = pc.if_else(used, "Used", pa.scalar(None, pa.string()))
    return pc.if_else(one_of(kind, UNUSED), "Unused", status)
