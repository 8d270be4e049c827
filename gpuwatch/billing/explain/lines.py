"""The lines of a charge as JSON: device, time, owner, share, rate, policy, buckets, amount, and the formula."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from decimal import Decimal
from fractions import Fraction
from typing import TYPE_CHECKING, Any

from gpuwatch.billing.explain.text import dealt_text, segment_text
from gpuwatch.core.clock import DAY_US, HOUR_US, rfc3339
from gpuwatch.core.money import CENT_PLACES, quotient_to_decimal, units_to_decimal
from gpuwatch.ledger.hours import HELD_BUCKETS
from gpuwatch.ledger.totals import SECOND_PLACES, Scale
from gpuwatch.policy.policy import PARTS, Policy

if TYPE_CHECKING:
    from gpuwatch.billing.explain.segments import Span

UNOBSERVED = "unobserved"
ASLEEP, ACTIVE = ("hoarded", "gap"), ("communication", "stalled", "below_roof")
"""Buckets whose time the platform may pay for, depending on the basis (sql/billing/policy_charges/cell.sql)."""
RATE = ("currency", "pricing", "rate", "card", "card_version", "sku", "commitment_id", "list_price", "contracted_price")
CONVERTED = ("base_price", "base_currency", "fx_rate")

Row = Mapping[str, Any]


def line(row: Row, scale: Scale, spans: Sequence[Span], version: int | None) -> dict[str, Any]:
    """One line from a row of sql/billing/explain/page.sql; `version` is that of the policies."""
    if row["rest_key"] is not None:
        return _rest(row, scale, spans, version)
    policy = next(span.policy for span in spans if span.number == row["policy"])
    held, priced = row["run"] is not None, row["usd_per_gpu_hour"] is not None
    gi = None if row["gi"] is None or row["gi"] < 0 else row["gi"]
    factor = PARTS if row["factor"] is None else row["factor"]
    item = {
        "what": "segment",
        "device": row["gpu"] if gi is None else f"{row['gpu']}/GI-{gi}",
        **_columns(row, "gpu", "gpu_index"),
        "gi": gi,
        **_columns(row, "node", "cluster", "pool", "gpu_model"),
        "mig_profile": row["profile"],
        "start": rfc3339(row["start_us"]),
        "end": rfc3339(row["end_us"]),
        "device_seconds": seconds_text(row["device_us"]),
        "segments": row["segments"],
        "owner": row["owner"] if held else "__platform__",
        **_columns(row, "job", "user", "run", "scheduler"),
        "bucket": row["free_bucket"],
        "share": str(Fraction(row["share_num"], row["share_den"])),
        "share_method": row["method"],
        "split": row["split"],
        "conflict": bool(row["conflict"]),
        "end_estimated": bool(row["end_estimated"]),
        "rate": _rate(row),
        "policy": {
            "name": policy.name,
            "version": version,
            "basis": {name: f"{weight.normalize():f}" for name, weight in policy.basis},
            "discount": _plain(Decimal(factor) / PARTS) if factor != PARTS else None,
        },
        **_bucket_times(row, held=held),
        "formula": formula(row, policy, factor) if priced else None,
        **_parts(row, scale, priced=priced),
    }
    return item | {"text": segment_text(item)}


def _columns(row: Row, *names: str) -> dict[str, Any]:
    return {name: row[name] for name in names}


def _bucket_times(row: Row, *, held: bool) -> dict[str, Any]:
    """The time of a segment by bucket, and the part of it that was observed."""
    held_buckets = {name: row[name] for name in HELD_BUCKETS if row[name]}
    buckets = held_buckets if held else {row["free_bucket"]: row["device_us"]}
    seen = row["device_us"] - (row[UNOBSERVED] or 0)
    # No source measures this device, or its hours are not in the ledger yet: the observed time is unknown, not zero.
    known = held and buckets and (row["measured"] or seen > 0)
    return {
        "coverage": seen / row["device_us"] if known else None,
        "observed_seconds": seconds_text(seen) if known else None,
        "bucket_hours": {name: _hours(us) for name, us in buckets.items()} if buckets else None,
    }


def without_pool(item: Mapping[str, Any]) -> dict[str, Any]:
    """A line without the amount that was divided, and the weights."""
    hidden = {**item, "dealt": None}
    return hidden | {"text": dealt_text(hidden)}


def formula(row: Row, policy: Policy, factor: int = PARTS) -> str:
    """The formula of a segment's amount: seconds x share x price per hour / 3600, and the policy's factors.

    It has only decimals, `x`, `+`, `/` and brackets, so that any calculator can check it.
    """
    parts = [
        _seconds(row, policy),
        str(Fraction(row["share_num"], row["share_den"])),
        f"{row['usd_per_gpu_hour']} / 3600",
    ]
    if factor != PARTS and row["run"] is not None:
        parts.append(_plain(Decimal(factor) / PARTS))
    return " x ".join(parts)


def amounts(scale: Scale, row: Row, *, priced: bool) -> dict[str, Any]:
    """GPU-seconds and cost of a charge, published and exact, from its sums."""
    return {
        "gpu_seconds": f"{units_to_decimal(int(row['micros']), SECOND_PLACES):f}",
        "gpu_seconds_exact": f"{scale.gpu_seconds_exact(int(row['units'])):f}",
        "cost": f"{units_to_decimal(int(row['cents']), CENT_PLACES):f}" if priced else None,
        "cost_exact": f"{scale.money_exact(int(row['amount'])):f}" if priced else None,
    }


def sum_line(row: Row, scale: Scale) -> dict[str, Any]:
    """The sums of one model, share and price."""
    priced = row["usd_per_gpu_hour"] is not None
    return {
        "gpu_model": row["gpu_model"],
        "mig_profile": row["mig_profile"],
        "share": str(Fraction(row["share_num"], row["share_den"])),
        "price": row["usd_per_gpu_hour"],
        "currency": row["currency"],
        "pricing": row["pricing"],
        "devices": row["devices"],
        "lines": row["lines"],
        "device_seconds": seconds_text(row["device_us"]),
        "gpu_seconds": f"{scale.gpu_seconds(int(row['units'])):f}",
        "cost_exact": f"{scale.money_exact(int(row['amount'])):f}" if priced else None,
    }


def seconds_text(micros: int) -> str:
    """Microseconds as seconds with all decimals."""
    return f"{units_to_decimal(int(micros), SECOND_PLACES):f}"


def _seconds(row: Row, policy: Policy) -> str:
    """The paid seconds, each at its weight if the basis has several."""
    if row["run"] is None or policy.parts("allocated") == PARTS:
        return f"{_short(row['device_us'])} s"
    asleep = policy.parts("allocated")
    active = asleep + policy.parts("used")
    weights = [*((name, asleep) for name in ASLEEP), *((name, active) for name in ACTIVE)]
    by_weight: dict[int, int] = {PARTS: sum(row[name] or 0 for name in (UNOBSERVED, "memory_roof", "compute"))}
    for name, weight in weights:
        by_weight[weight] = by_weight.get(weight, 0) + (row[name] or 0)
    products = [f"{_short(us)} s x {_plain(Decimal(weight) / PARTS)}" for weight, us in by_weight.items() if us]
    return f"({' + '.join(products) or '0 s'})"


def _rate(row: Row) -> dict[str, Any] | None:
    if row["usd_per_gpu_hour"] is None:
        return None
    converted = None
    if row["fx_rate"] is not None:
        converted = _columns(row, *CONVERTED) | {"fx_from": rfc3339(row["fx_from_us"])}
    return {"price": row["usd_per_gpu_hour"], **_columns(row, *RATE), "converted": converted}


def _rest(row: Row, scale: Scale, spans: Sequence[Span], version: int | None) -> dict[str, Any]:
    """A line of a day's money that is not the time of a device: a share of unallocated time or of another cost."""
    day_us = row["day_us"]
    policy = next((one.policy for one in spans if one.start_us < day_us + DAY_US and day_us < one.end_us), None)
    pool = row["pool_amount"]
    item = {
        "what": _what(row),
        "day": rfc3339(day_us)[:10],
        **_columns(row, "cause", "cluster", "pool", "gpu_model"),
        "policy": None if policy is None else {"name": policy.name, "version": version, "payer": _payer(policy, row)},
        "dealt": None
        if pool is None
        else {"amount": f"{scale.money_exact(int(pool)):f}", "weight": row["weight"], "weights": row["total"]},
    }
    item |= _parts(row, scale, priced=True)
    return item | {"text": dealt_text(item)}


def _what(row: Row) -> str:
    if row["external"]:
        return "shared_cost"
    if row["kind"] == "shared":
        return "dealt"
    return "passed_on" if row["given"] else str(row["cause"])


def _payer(policy: Policy, row: Row) -> str | None:
    if row["external"]:
        return next((cost.split for cost in policy.shared if cost.name == row["cause"]), None)
    return dict(policy.payers)[row["cause"]].payer if row["cause"] in dict(policy.payers) else None


def _parts(row: Row, scale: Scale, *, priced: bool) -> dict[str, Any]:
    """The part of the rounded sums that a line adds: all lines add up to the rounded total."""
    units, amount = int(row["units_upto"]), int(row["amount_upto"])
    seconds = scale.gpu_seconds_exact(units) - scale.gpu_seconds_exact(units - int(row["units"]))
    money = scale.money_exact(amount) - scale.money_exact(amount - int(row["amount"]))
    return {"gpu_seconds": f"{seconds:f}", "cost_exact": f"{money:f}" if priced else None}


def _hours(us: int) -> str:
    return f"{quotient_to_decimal(int(us), HOUR_US, SECOND_PLACES):f}"


def _short(us: int) -> str:
    return _plain(units_to_decimal(int(us), SECOND_PLACES))


def _plain(value: Decimal) -> str:
    return f"{value.normalize():f}"
