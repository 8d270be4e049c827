"""Import kind `bill-aws-cur`: AWS Cost and Usage Reports, 1.0 and 2.0 (Data Exports)."""

from __future__ import annotations

from collections.abc import Mapping

import pyarrow as pa
import pyarrow.compute as pc

from gpuwatch.collectors.bills.cells import Cells, wanted
from gpuwatch.collectors.bills.lines import PERIOD, amounts, key_of, lines, whole_number, zero
from gpuwatch.collectors.bills.tables import SUFFIXES
from gpuwatch.collectors.bills.values import (
    added,
    ends,
    joined,
    json_key,
    matches,
    one_of,
    same,
    subtracted,
    tags_of,
    tags_of_columns,
    times,
    units,
    words,
)
from gpuwatch.core.model import Rejects, Rows, Source
from gpuwatch.core.registry import importer

KIND = "bill-aws-cur"
NEEDED = (
    ("lineItem/LineItemType", "line_item_line_item_type"),
    ("lineItem/UsageStartDate", "line_item_usage_start_date"),
    ("lineItem/UsageEndDate", "line_item_usage_end_date"),
    ("lineItem/UnblendedCost", "line_item_unblended_cost"),
    ("lineItem/CurrencyCode", "line_item_currency_code"),
    ("bill/PayerAccountId", "bill_payer_account_id"),
    ("bill/BillingPeriodStartDate", "bill_billing_period_start_date"),
)
OTHERS = (
    *("identity_line_item_id", "identity_time_interval", "bill_invoice_id", "bill_billing_period_end_date"),
    *("line_item_usage_account_id", "line_item_resource_id", "line_item_usage_type", "line_item_operation"),
    *("line_item_usage_amount", "line_item_product_code", "line_item_line_item_description", "line_item_tax_type"),
    *("product", "product_instance_type", "product_gpu", "product_region", "product_region_code", "product_sku"),
    *("pricing_term", "pricing_unit", "pricing_public_on_demand_cost"),
    *("reservation_reservation_a_r_n", "reservation_effective_cost"),
    *("reservation_unused_amortized_upfront_fee_for_billing_period", "reservation_unused_recurring_fee"),
    *("savings_plan_savings_plan_a_r_n", "savings_plan_savings_plan_effective_cost"),
    *("savings_plan_total_commitment_to_date", "savings_plan_used_commitment", "resource_tags", "tags"),
)
CATEGORIES = {
    **dict.fromkeys(("usage", "discountedusage", "savingsplancoveredusage"), "Usage"),
    **dict.fromkeys(("fee", "rifee", "savingsplanupfrontfee", "savingsplanrecurringfee"), "Purchase"),
    "tax": "Tax",
    "credit": "Credit",
}
OTHER_CATEGORY = "Adjustment"
"""Refunds, discounts and the negations of Savings Plans."""
COVERED = {
    "discountedusage": "Used",
    "savingsplancoveredusage": "Used",
    "rifee": "Unused",
    "savingsplanrecurringfee": "Unused",
}
INSTANCE_USAGE = (
    r"(^|-)((BoxUsage|SpotUsage|DedicatedUsage|HostBoxUsage|HostUsage|UnusedBox|UnusedDed|Reservation|Host)(:|$)"
    r"|(Train|Cluster):ml\.)"
)
"""Hours of instances: of EC2, and of SageMaker's endpoints, training jobs and HyperPod clusters."""
SOURCE_COLUMNS = {
    "billed_cost": ("lineItem/UnblendedCost",),
    "effective_cost": ("savingsPlan/SavingsPlanEffectiveCost", "reservation/EffectiveCost"),
    "list_cost": ("pricing/publicOnDemandCost",),
    "contracted_cost": ("lineItem/UnblendedCost",),
    "quantity": ("lineItem/UsageAmount",),
    "currency": ("lineItem/CurrencyCode",),
    "start_us": ("lineItem/UsageStartDate",),
    "end_us": ("lineItem/UsageEndDate",),
}
_WANT = wanted(OTHERS, NEEDED, tags="resourcetags")


@importer(KIND, "AWS Cost and Usage Report 1.0 or 2.0: CSV or Parquet, .gz too", SUFFIXES)
def read_aws_bill(source: Source, rejects: Rejects) -> Rows:
    """Yields the lines of a CUR file, which replaces older ones of its billing period. Raises UnreadableInput.

    billed_cost is the unblended cost. effective_cost is AWS's amortised cost: for a covered hour its share of the
    Reserved Instance or Savings Plan, for recurring fees only the unused part, for upfront fees nothing
    (docs.aws.amazon.com/cur: SavingsPlanEffectiveCost, RecurringFee, UnusedRecurringFee).
    """
    yield from lines(source, rejects, KIND, PERIOD, _WANT, draft_columns, SOURCE_COLUMNS)


def draft_columns(cells: Cells) -> list[tuple[Mapping[str, pa.Array], pa.Array]]:
    """The columns of BILL in a CUR."""
    kind = cells.get("line_item_line_item_type")
    usage_type, product = cells.get("line_item_usage_type"), cells.get("product")
    instance = _first(cells.get("product_instance_type"), json_key(product, "instance_type", "instanceType"))
    start = cells.get("line_item_usage_start_date")
    # Storage and traffic of an instance are not instance hours.
    of_instance = pc.or_(matches(usage_type, INSTANCE_USAGE), one_of(kind, ("RIFee", "SavingsPlanRecurringFee")))
    named = joined([instance, usage_type])
    columns = {
        "provider": same("aws", cells.rows),
        "account": cells.get("bill_payer_account_id"),
        "sub_account": cells.get("line_item_usage_account_id"),
        "invoice": cells.get("bill_invoice_id"),
        "billing_start_us": times(cells.get("bill_billing_period_start_date")),
        "billing_end_us": ends(cells.get("bill_billing_period_end_date"), inclusive_dates=False),
        "start_us": times(start),
        "end_us": ends(cells.get("line_item_usage_end_date"), inclusive_dates=False),
        "resource": cells.get("line_item_resource_id"),
        "service": cells.get("line_item_product_code"),
        "sku": _first(cells.get("product_sku"), json_key(product, "sku")),
        "instance_type": instance,
        "description": cells.get("line_item_line_item_description"),
        "region": _first(cells.get("product_region_code", "product_region"), json_key(product, "region")),
        "category": words(kind, CATEGORIES, OTHER_CATEGORY),
        "charge_type": kind,
        "pricing": _pricing(kind, usage_type, cells.get("pricing_term")),
        "commitment": cells.get("reservation_reservation_a_r_n", "savings_plan_savings_plan_a_r_n"),
        "commitment_status": words(kind, COVERED),
        "billed_cost": cells.get("line_item_unblended_cost"),
        "effective_cost": _effective(cells, kind),
        "list_cost": cells.get("pricing_public_on_demand_cost"),
        "contracted_cost": pc.if_else(one_of(kind, ("Usage",)), cells.get("line_item_unblended_cost"), _none(cells)),
        "currency": cells.get("line_item_currency_code"),
        "quantity": cells.get("line_item_usage_amount"),
        "unit": units(
            _first(cells.get("pricing_unit"), pc.if_else(of_instance, same("Hrs", cells.rows), _none(cells)))
        ),
        "tags": pc.coalesce(tags_of(cells.get("resource_tags", "tags")), tags_of_columns(cells.tags, cells.rows)),
        "gpu_count": pc.if_else(
            of_instance,
            whole_number(_first(cells.get("product_gpu"), json_key(product, "gpu"))),
            pa.scalar(None, pa.int32()),
        ),
        "gpu": pc.if_else(of_instance, named, _none(cells)),
        "key": key_of(cells.get("identity_line_item_id"), cells.get("identity_time_interval"), start, kind, usage_type),
    }
    return [(columns, cells.lines)]


def _effective(cells: Cells, kind: pa.Array) -> pa.Array:
    """AWS's amortised cost of each line, NULL if the report lacks its column."""
    none = zero(cells.rows)

    def part(name: str) -> pa.Array:
        return amounts(cells.get(name))

    unused_reservation = added(
        part("reservation_unused_amortized_upfront_fee_for_billing_period"), part("reservation_unused_recurring_fee")
    )
    unused_plan = subtracted(part("savings_plan_total_commitment_to_date"), part("savings_plan_used_commitment"))
    upfront = pc.and_(one_of(kind, ("Fee",)), pc.is_valid(cells.get("reservation_reservation_a_r_n")))
    cases = [
        (one_of(kind, ("SavingsPlanCoveredUsage",)), part("savings_plan_savings_plan_effective_cost")),
        (one_of(kind, ("DiscountedUsage",)), part("reservation_effective_cost")),
        (one_of(kind, ("SavingsPlanRecurringFee",)), unused_plan),
        (one_of(kind, ("RIFee",)), unused_reservation),
        (pc.or_(upfront, one_of(kind, ("SavingsPlanNegation", "SavingsPlanUpfrontFee"))), none),
    ]
    effective = part("line_item_unblended_cost")
    for mask, value in cases:
        effective = pc.if_else(mask, value, effective)
    return effective


def _pricing(kind: pa.Array, usage_type: pa.Array, term: pa.Array) -> pa.Array:
    committed = pc.or_(pc.is_valid(words(kind, COVERED)), one_of(term, ("Reserved",)))
    pricing = words(term, {"ondemand": "Standard"}, "Other")
    pricing = pc.if_else(committed, "Committed", pricing)
    return pc.if_else(matches(usage_type, "SpotUsage"), "Dynamic", pricing)


def _first(*columns: pa.Array) -> pa.Array:
    return pc.coalesce(*columns)


def _none(cells: Cells) -> pa.Array:
    return pa.nulls(cells.rows, pa.string())
