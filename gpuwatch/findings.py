"""Findings as everybody reads them: the rows of the detectors with words, owner and money."""

from __future__ import annotations

import json
from collections import defaultdict
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from decimal import Decimal
from fractions import Fraction
from typing import Any

from gpuwatch.clock import DAY_US, HOUR_US, SECOND_US, Window, rfc3339
from gpuwatch.detectors.rule import rules
from gpuwatch.errors import UsageError
from gpuwatch.money import CENT_PLACES, format_quantity
from gpuwatch.store import Store

SEVERITIES = ((Fraction(10), "info"), (Fraction(100), "low"), (Fraction(1000), "medium"))
"""Money a day below which a finding is no worse than this; at or above all of them it is high (domain.md section 3)."""
UNPRICED_SEVERITY = "low"
ELAPSED_US_MIN = HOUR_US
"""A shorter waste counts as an hour's: a minute at $100 is not $144,000 a day."""


@dataclass(frozen=True)
class Finding:
    """A finding of contract.md section 4. Times are RFC 3339; amounts are decimal text, None where unknown."""

    key: str
    detector: str
    title: str
    severity: str
    state: str
    confidence: float
    cluster: str
    subject: dict[str, str | None]
    team: str
    user: str | None
    started_at: str
    ended_at: str | None
    last_seen_at: str
    wasted_gpu_seconds: str
    wasted_cost: str | None
    currency: str | None
    bucket: str
    summary: str
    remedy: str
    evidence: dict[str, Any]
    devices: list[str]
    nodes: list[str]
    suppressed_by: str | None
    resolved_reason: str | None

    def as_dict(self) -> dict[str, Any]:
        """The finding as JSON has it."""
        return asdict(self)


FIELDS = tuple(Finding.__dataclass_fields__)


@dataclass(frozen=True)
class _Price:
    """What a GPU-hour of a finding's devices cost on average over its time; None where some of it has no rate."""

    usd_per_gpu_hour: Fraction | None
    currency: str | None
    missing: str | None = None


def read(
    store: Store,
    *,
    open_only: bool = False,
    detectors: Sequence[str] = (),
    team: str | None = None,
    window: Window | None = None,
) -> list[Finding]:
    """Findings, the dearest first. `window` keeps those whose time [started, ended) touches it; an open one has no end.

    Prices and teams are those of the last pricing (cost.price). Raises UsageError for an unknown detector.
    """
    known = rules()
    for name in detectors:
        if name not in known:
            raise UsageError(f"--detector {name}: unknown; known: {', '.join(known)}")
    prices = _prices(store)
    rows = store.rows(
        "reports/finding",
        open_only=open_only,
        team=team,
        start_us=None if window is None else window.start_us,
        end_us=None if window is None else window.end_us,
    )
    wanted = [row for row in rows if not detectors or row["detector"] in detectors]
    found = [
        _finding(row, prices.get(row["key"], _Price(None, None, "no price known for its devices"))) for row in wanted
    ]
    return sorted(found, key=lambda f: (-Decimal(f.wasted_cost or 0), -Decimal(f.wasted_gpu_seconds), f.key))


def severity_of(cost: Fraction | None, elapsed_us: int) -> str:
    """By money a day: cost over the time it took, at least an hour; UNPRICED_SEVERITY where there is no price."""
    if cost is None:
        return UNPRICED_SEVERITY
    a_day = cost * DAY_US / max(elapsed_us, ELAPSED_US_MIN)
    return next((name for limit, name in SEVERITIES if a_day < limit), "high")


def _prices(store: Store) -> dict[str, _Price]:
    """Mean price by finding key, weighted by device and time."""
    spans: dict[str, list[dict[str, Any]]] = defaultdict(list)
    for row in store.rows("reports/finding_price"):
        spans[row["key"]].append(row)
    return {key: _mean(parts) for key, parts in spans.items()}


def _mean(parts: Sequence[dict[str, Any]]) -> _Price:
    lacking = sorted({p["model"] or "unknown model" for p in parts if p["usd_per_gpu_hour"] is None})
    if lacking:
        return _Price(None, None, f"no rate for {', '.join(lacking)}: add a line to rates.csv")
    currencies = sorted({p["currency"] for p in parts})
    if len(currencies) > 1:
        return _Price(None, None, f"prices in {' and '.join(currencies)} do not add up")
    weight = sum(int(p["overlap_us"]) for p in parts)
    total = sum((Fraction(p["usd_per_gpu_hour"]) * int(p["overlap_us"]) for p in parts), Fraction(0))
    return _Price(total / weight, currencies[0])


def _finding(row: dict[str, Any], price: _Price) -> Finding:
    rule = rules().get(row["detector"])
    told = json.loads(row["evidence"] or "{}")
    seconds = Fraction(int(row["wasted_units"]), row["wasted_den"] * SECOND_US)
    cost = None if price.usd_per_gpu_hour is None else seconds * SECOND_US / HOUR_US * price.usd_per_gpu_hour
    elapsed_us = row["last_seen_us"] - row["started_us"]
    severity = severity_of(cost, elapsed_us)
    if rule is not None and rule.severity is not None:
        severity = rule.severity(told, elapsed_us / HOUR_US)
    evidence = {
        **told,
        "thresholds": _thresholds(row["rule_version"]),
        "window": {"start": rfc3339(row["started_us"]), "end": rfc3339(row["last_seen_us"])},
    }
    if price.missing:
        evidence["price"] = price.missing
    return Finding(
        key=row["key"],
        detector=row["detector"],
        title=row["detector"] if rule is None else rule.title,
        severity=severity,
        state=row["state"],
        confidence=row["confidence"],
        cluster=row["cluster"],
        subject={"kind": "job", "id": row["job_id"], "name": row["name"]},
        team=row["team"],
        user=row["user_name"],
        started_at=rfc3339(row["started_us"]),
        ended_at=None if row["ended_us"] is None else rfc3339(row["ended_us"]),
        last_seen_at=rfc3339(row["last_seen_us"]),
        wasted_gpu_seconds=format_quantity(seconds),
        wasted_cost=None if cost is None else format_quantity(cost, CENT_PLACES),
        currency=price.currency,
        bucket=row["bucket"],
        summary="" if rule is None else rule.summary(told),
        remedy="" if rule is None else rule.remedy(told),
        evidence=evidence,
        devices=list(row["devices"] or []),
        nodes=list(row["nodes"] or []),
        suppressed_by=None,
        resolved_reason=row["resolved_reason"],
    )


def _thresholds(version: str) -> dict[str, float]:
    """`a=1,b=0.5` as numbers by name: what was in force when the finding was judged."""
    pairs = (part.partition("=") for part in version.split(",") if part)
    return {name: float(value) for name, _, value in pairs}
