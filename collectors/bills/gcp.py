"""Import kind `bill-gcp`: Google Cloud's billing export to BigQuery, standard or detailed."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from decimal import Decimal, InvalidOperation, localcontext

import pyarrow as pa
import pyarrow.compute as pc

from gpuwatch.collectors.bills.cells import Cells, wanted
from gpuwatch.collectors.bills.lines import LINES, amounts, key_of, lines, zero
from gpuwatch.collectors.bills.months import month_end, month_start
from gpuwatch.collectors.bills.tables import SUFFIXES
from gpuwatch.collectors.bills.values import (
    LARGEST,
    added,
    by_value,
    ends,
    joined,
    json_key,
    matches,
    moment,
    same,
    tags_of,
    times,
    units,
    words,
)
from gpuwatch.core.bill import MONEY
from gpuwatch.core.model import Rejects, Rows, Source
from gpuwatch.core.registry import importer

KIND = "bill-gcp"
NEEDED = (
    ("usage_start_time",),
    ("usage_end_time",),
    ("cost",),
    ("currency",),
    ("service.description", "service_description"),
    ("sku.description", "sku_description"),
)
OTHERS = (
    *("billing_account_id", "project.id", "project_id", "invoice.month", "resource.name", "resource.global_name"),
    *("sku.id", "location.region", "region", "cost_type", "cost_at_list", "credits", "labels", "system_labels"),
    *("usage.amount_in_pricing_units", "usage.pricing_unit", "usage.amount", "usage.unit", "adjustment_info.type"),
    *("usage_amount_in_pricing_units", "usage_pricing_unit", "subscription.instance_id", "export_time"),
)
CATEGORIES = {"regular": "Usage", "tax": "Tax"}
OTHER_CATEGORY = "Adjustment"
"""adjustment and rounding_error."""
PROMOTIONS = ("PROMOTION", "FREE_TIER")
"""Credits that are granted money, not a lower price."""
COMMITTED = r"COMMITTED_USAGE|SUBSCRIPTION_BENEFIT|FEE_UTILIZATION"
SOURCE_COLUMNS = {
    "billed_cost": ("cost",),
    "effective_cost": ("cost",),
    "list_cost": ("cost_at_list",),
    "contracted_cost": ("cost",),
    "quantity": ("usage.amount_in_pricing_units", "usage.amount"),
    "currency": ("currency",),
    "start_us": ("usage_start_time",),
    "end_us": ("usage_end_time",),
}
_WANT = wanted(OTHERS, NEEDED)


@importer(
    KIND,
    "Google Cloud billing export (standard or detailed): JSON lines, CSV or Parquet, .gz too",
    (*SUFFIXES, ".json", ".json.gz"),
)
def read_gcp_bill(source: Source, rejects: Rejects) -> Rows:
    """Yields the lines of an export. Exports add lines to each other; a repeated row counts once.

    Each row has a list of credits. Those that lower its price (sustained and committed use, negotiated and resellers'
    discounts) are included in its billed and effective cost; promotions and free tiers become a line of category
    Credit. This way billed costs add up to `cost` plus all credits. Raises UnreadableInput.
    """
    yield from lines(source, rejects, KIND, LINES, _WANT, draft_columns, SOURCE_COLUMNS)


def draft_columns(cells: Cells) -> list[tuple[Mapping[str, pa.Array], pa.Array]]:
    """The columns of BILL in an export: one line per row, and another one for its promotions."""
    credits, sku = cells.get("credits"), cells.get("sku.description")
    start_text, cost = cells.get("usage_start_time"), cells.get("cost")
    kind, start = cells.get("cost_type"), times(start_text)
    kind = pc.coalesce(kind, same("regular", cells.rows))
    invoice = cells.get("invoice.month")
    period = pc.coalesce(by_value(invoice, _first_day, pa.int64()), month_start(start))
    machine = json_key(cells.get("system_labels"), "compute.googleapis.com/machine_spec")
    discount, promotion = (by_value(credits, _credits(promotions), MONEY) for promotions in (False, True))
    amount = amounts(cost)
    net = pc.if_else(pc.is_null(discount), amount, added(amount, pc.coalesce(discount, zero(cells.rows))))
    committed = matches(credits, COMMITTED)
    pricing = pc.if_else(
        matches(sku, r"\b(spot|preemptible)\b"), "Dynamic", pc.if_else(committed, "Committed", "Standard")
    )
    commitment = pc.coalesce(cells.get("subscription.instance_id"), by_value(credits, _commitment, pa.string()))
    columns: dict[str, pa.Array] = {
        "provider": same("gcp", cells.rows),
        "account": cells.get("billing_account_id"),
        "sub_account": cells.get("project.id", "project_id"),
        "invoice": invoice,
        "billing_start_us": period,
        "billing_end_us": month_end(period),
        "start_us": start,
        "end_us": ends(cells.get("usage_end_time"), inclusive_dates=False),
        "resource": cells.get("resource.global_name", "resource.name"),
        "resource_name": cells.get("resource.name"),
        "service": cells.get("service.description"),
        "sku": cells.get("sku.id"),
        "instance_type": machine,
        "description": sku,
        "region": cells.get("location.region", "region"),
        "category": pc.if_else(
            matches(sku, r"^commitment"), "Purchase", words(kind, CATEGORIES, OTHER_CATEGORY)
        ),
        "charge_type": kind,
        "pricing": pricing,
        "commitment": commitment,
        "commitment_status": pc.if_else(committed, "Used", pa.scalar(None, pa.string())),
        # A cost that is not a number stays text here and is rejected later.
        "billed_cost": net if amount.null_count == cost.null_count else pc.if_else(pc.is_null(amount), cost, net.cast(pa.string())),
        "effective_cost": net,
        "list_cost": cells.get("cost_at_list"),
        "contracted_cost": cost,
        "currency": cells.get("currency"),
        "quantity": cells.get("usage.amount_in_pricing_units", "usage.amount"),
        "unit": units(cells.get("usage.pricing_unit", "usage.unit")),
        "tags": tags_of(cells.get("labels")),
        # There is no SKU per machine type: its GPUs, processors and memory are billed separately.
        "gpu": joined([sku]),
        "key": key_of(
            cells.get("billing_account_id"), cells.get("project.id"), start_text, cells.get("usage_end_time"),
            cells.get("sku.id"), cells.get("resource.global_name", "resource.name"), cells.get("labels"), kind, cost,
            cells.get("usage.amount"), credits, cells.get("export_time"),
        ),
    }  # fmt: skip
    promoted = pc.is_valid(promotion)
    if not pc.any(promoted).as_py():
        return [(columns, cells.lines)]
    credit = columns | {
        "category": same("Credit", cells.rows),
        "charge_type": by_value(credits, _promotion_type, pa.string()),
        "billed_cost": promotion,
        "effective_cost": promotion,
        "list_cost": pa.nulls(cells.rows, MONEY),
        "contracted_cost": pa.nulls(cells.rows, MONEY),
        "quantity": pa.nulls(cells.rows, MONEY),
        "gpu": pa.nulls(cells.rows, pa.string()),
    }
    return [(columns, cells.lines), ({n: c.filter(promoted) for n, c in credit.items()}, cells.lines.filter(promoted))]


def _first_day(month: str) -> int | None:
    """The start of the month 202411."""
    return moment(f"{month[:4]}-{month[4:6]}-01") if len(month) == 6 else moment(month)


def _listed(text: str) -> list[dict[str, object]]:
    try:
        found = json.loads(text, parse_float=str, parse_int=str)
    except (ValueError, RecursionError):
        return []
    return [each for each in found if isinstance(each, dict)] if isinstance(found, list) else []


def _is_promotion(credit: Mapping[str, object]) -> bool:
    return str(credit.get("type") or "PROMOTION").upper() in PROMOTIONS


def _credits(promotions: bool) -> Callable[[str], Decimal | None]:
    """A function for the sum of the credits that are promotions, or of the others; None without any."""

    def add(text: str) -> Decimal | None:
        chosen = [credit for credit in _listed(text) if _is_promotion(credit) == promotions]
        with localcontext(prec=80):
            try:
                total = sum((Decimal(str(credit.get("amount") or 0)) for credit in chosen), Decimal(0))
                return total.quantize(Decimal(1).scaleb(-18)) if chosen and abs(total) < LARGEST else None
            except InvalidOperation:
                return None

    return add


def _promotion_type(text: str) -> str | None:
    return next((str(c.get("type") or "PROMOTION") for c in _listed(text) if _is_promotion(c)), None)


def _commitment(text: str) -> str | None:
    """The id or name of a row's committed use."""
    committed = (c for c in _listed(text) if str(c.get("type")).startswith("COMMITTED_USAGE"))
    return next((str(c.get("id") or c.get("name")) for c in committed), None)
