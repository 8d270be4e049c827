"""Chargeback and ledger answers as listings for files, tables and JSON."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from decimal import Decimal
from fractions import Fraction
from typing import Any

from gpuwatch.billing.charge_id import Asked, encode
from gpuwatch.billing.records import BucketRow, Charge, Chargeback, Ledger
from gpuwatch.core.clock import Window, rfc3339
from gpuwatch.ledger.dimensions import CAUSE, plain
from gpuwatch.ledger.measures import (
    AVOIDABLE,
    CLAIMABLE,
    FREE,
    MEASURED_MIN,
    NOT_MEASURED,
    OUT_OF_SERVICE,
    WORDS,
    WORKING,
    Measure,
    Measures,
)
from gpuwatch.output.listing import Listing

MARKS = ["inferred", "partly_inferred"]
USE = ("working", "avoidable")
"""Measures that need measurements of held time."""
MEASURE_BUCKETS = {
    "working": WORKING,
    "avoidable": AVOIDABLE,
    "free": FREE,
    "not_measured": (NOT_MEASURED,),
    "out_of_service": (OUT_OF_SERVICE,),
}
NAMED_MAX = 8
"""Teams that a line below a table names."""


def chargeback_listing(answer: Chargeback) -> Listing:
    """The `chargeback` answer."""
    items: list[dict[str, Any]] = []
    for charge in answer.items:
        item: dict[str, Any] = {
            **charge.group,
            "gpu_seconds": f"{charge.gpu_seconds:f}",
            "cost": _text(charge.cost),
            "cost_exact": _text(charge.cost_exact),
            "currency": charge.currency,
            "kind": charge.kind,
            "charge": _charge_id(answer, charge),
        }
        if "team" in charge.group:
            item |= _marks(charge)
        if charge.cause is not None:
            item["cause"] = charge.cause
        if charge.error is not None:
            item["error"] = charge.error
        items.append(item)
    total: dict[str, Any] = {"gpu_seconds": f"{answer.gpu_seconds:f}", "cost": _text(answer.cost)}
    if answer.currency is not None:
        total["currency"] = answer.currency
    if answer.external_cost:
        total["external_cost"] = _text(answer.external_cost)
    if answer.unpriced_gpu_seconds:
        total["unpriced_gpu_seconds"] = f"{answer.unpriced_gpu_seconds:f}"
    return chargeback_answer({"items": items, "window": window_dict(answer.window), "total": total}, answer.by)


def chargeback_answer(answer: Mapping[str, Any], by: Sequence[str]) -> Listing:
    """The `chargeback` answer from the JSON of a server."""
    total = answer["total"]
    currency, unpriced = total.get("currency"), total.get("unpriced_gpu_seconds")
    unknown = "no rate" if unpriced == total["gpu_seconds"] else "several currencies"
    foot = [f"Total: {total['gpu_seconds']} GPU-seconds, {total['cost'] or unknown}"]
    foot[0] += f" {currency}" if currency else ""
    if unpriced:
        foot.append(f"Without a rate: {unpriced} GPU-seconds; gpuwatch doctor names the rates")
    if external := total.get("external_cost"):
        foot.append(f"Of it beyond what devices cost: {external}; gpuwatch policy show names these amounts")
    foot += inferred_lines(answer["items"])
    names = [*by, "gpu_seconds", "cost", "cost_exact", "currency", "kind"]
    if external and CAUSE not in by:
        names.append(CAUSE)
    return Listing(
        [*names, "error", *([] if CAUSE in names else [CAUSE]), "charge", *(MARKS if "team" in by else [])],
        answer["items"],
        {"window": answer["window"], "total": total},
        shown=[*names, *(["error"] if unpriced else [])],
        foot=[*foot, _window_line(answer["window"])],
    )


def _marks(row: Charge | BucketRow) -> dict[str, bool]:
    return {"inferred": row.mark.inferred, "partly_inferred": row.mark.partly}


def inferred_lines(items: Sequence[Mapping[str, Any]]) -> list[str]:
    """The teams that accounts and namespaces name, in one line below a table."""
    teams = list(dict.fromkeys(str(item["team"]) for item in items if item.get("inferred")))
    if not teams:
        return []
    shown = ", ".join(teams[:NAMED_MAX]) + (f" and {len(teams) - NAMED_MAX} more" if len(teams) > NAMED_MAX else "")
    return [f"Inferred from accounts and namespaces, without an ownership rule: {shown}"]


def ledger_listing(answer: Ledger) -> Listing:
    """The `ledger` answer; rows of a ledger in steps have `start`, the start of their step."""
    items = [
        {
            **({} if row.start_us is None else {"start": rfc3339(row.start_us)}),
            **row.group,
            "bucket": row.bucket,
            "gpu_seconds": f"{row.gpu_seconds:f}",
            "cost": _text(row.cost),
            "currency": row.currency,
            "avoidable_gpu_seconds": f"{row.avoidable_gpu_seconds:f}",
            **(_marks(row) if "team" in row.group else {}),
        }
        for row in answer.items
    ]
    funnel = {
        step: {"gpu_seconds": _text(amount.gpu_seconds), "cost": _text(amount.cost)}
        for step, amount in answer.funnel.items()
    }
    content = {
        "items": items,
        "capacity_gpu_seconds": f"{answer.capacity_gpu_seconds:f}",
        "window": window_dict(answer.window),
        "funnel": funnel,
        "currency": answer.currency,
        **measures_dict(answer.measures, answer.currency),
        "groups": [one.group | measures_dict(one.measures, answer.currency) for one in answer.groups],
    }
    return ledger_answer(content, answer.by, stepped=answer.step_us is not None)


def ledger_answer(answer: Mapping[str, Any], by: Sequence[str], *, stepped: bool = False) -> Listing:
    """The `ledger` answer from the JSON of a server."""
    dimensions = [name for name in by if name != "bucket"]
    extra = {name: value for name, value in answer.items() if name not in ("items", "next")}
    marks = MARKS if "team" in by else []
    return Listing(
        [*(["start"] if stepped else []), *dimensions, "bucket", "gpu_seconds", "cost", "currency", *marks],
        answer["items"],
        extra,
        foot=[
            *measures_lines(answer),
            *inferred_lines(answer["items"]),
            f"Capacity: {answer['capacity_gpu_seconds']} GPU-seconds",
            _window_line(answer["window"]),
        ],
    )


def measures_dict(found: Measures, currency: str | None) -> dict[str, Any]:
    """Measures as JSON."""

    def one(name: str) -> dict[str, Any]:
        measure: Measure = getattr(found, name)
        return {
            "gpu_seconds": _text(measure.gpu_seconds),
            "cost": _text(measure.cost_in(currency)),
            "ratio": measure.ratio,
        }

    return {
        "working": one("working"),
        "avoidable": one("avoidable"),
        "free": one("free"),
        "unknown": {"not_measured": one("not_measured"), "out_of_service": one("out_of_service")},
        "roofline_efficiency": found.roofline_efficiency,
        "measured_ratio": found.measured_ratio,
    }


def measures_lines(answer: Mapping[str, Any]) -> list[str]:
    """The measures of a ledger answer below its table; what was not measured comes first where that is most of it."""
    found = {**answer, **answer["unknown"]}
    names = sorted(WORDS, key=lambda name: name != "not_measured") if not shares_known(answer) else list(WORDS)
    lines = []
    for name in names:
        one = found[name]
        if one["gpu_seconds"] is None:
            lines.append(f"{WORDS[name]}: unknown, nothing was measured")
        elif name in USE and not Decimal(one["gpu_seconds"]) and not shares_known(answer):
            lines.append(f"{WORDS[name]}: unknown, most of the held time was not measured")
        elif Decimal(one["gpu_seconds"]) or name in USE:
            share = "" if one["ratio"] is None else f" ({one['ratio']:.1%})"
            cost = _listed_cost(answer, name) or one["cost"]
            money = "" if cost is None else f", {Decimal(cost):,.2f} {answer['currency']}"
            lines.append(f"{WORDS[name]}: {Decimal(one['gpu_seconds']) / 3600:,.1f} GPU-hours{share}{money}")
    if answer["roofline_efficiency"] is not None and shares_known(answer):
        lines.append(f"Of the working time, the hardware ran at {answer['roofline_efficiency']:.0%} of its roofline")
    return lines


def _listed_cost(answer: Mapping[str, Any], name: str) -> Decimal | None:
    """The cost of a measure as its rows have it, which are rounded so that they add up to the total; None if it has no rows."""
    buckets = MEASURE_BUCKETS.get(name, ())
    rows = [item for item in answer.get("items", ()) if item["bucket"] in buckets]
    claimed = name in USE and any(
        item["bucket"] == CLAIMABLE and Decimal(item["avoidable_gpu_seconds"]) for item in answer.get("items", ())
    )
    if not rows or claimed or any(item["cost"] is None or item["currency"] != answer["currency"] for item in rows):
        return None
    return sum((Decimal(item["cost"]) for item in rows), Decimal(0))


def shares_known(answer: Mapping[str, Any]) -> bool:
    """Whether enough of the held time was measured to show shares of it."""
    return answer["measured_ratio"] is None or Fraction(str(answer["measured_ratio"])) >= MEASURED_MIN


def _charge_id(answer: Chargeback, charge: Charge) -> str | None:
    """The id to explain a charge by; None by dimensions that ids do not have."""
    if not plain(answer.by):
        return None
    group = tuple(charge.group.items())
    return encode(Asked(answer.window, group, charge.kind, charge.currency, charge.cause, answer.cluster, answer.pool))


def window_dict(span: Window) -> dict[str, str]:
    """A window as JSON has it."""
    return {"start": rfc3339(span.start_us), "end": rfc3339(span.end_us)}


def _window_line(ends: Mapping[str, str]) -> str:
    return f"Window: {ends['start']} to {ends['end']}, UTC"


def _text(amount: Decimal | None) -> str | None:
    return None if amount is None else f"{amount:f}"
