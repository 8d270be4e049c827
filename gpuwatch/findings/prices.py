"""Exact costs of findings, from the stored claims of their time or the prices of their devices."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from fractions import Fraction
from typing import Any

from gpuwatch.core.clock import HOUR_US, SECOND_US
from gpuwatch.store.database import Store

Row = dict[str, Any]


@dataclass(frozen=True)
class Price:
    """The cost of a finding's time; None if a part has no rate, or if currencies differ."""

    cost: Fraction | None
    currency: str | None
    missing: str | None = None
    claimed: Mapping[str, Fraction] = field(default_factory=dict)
    """GPU-seconds by bucket."""


def prices_of(store: Store, findings: Mapping[str, Row]) -> dict[str, Price]:
    """The price of each finding, by key. `findings`: their rows of findings/finding.sql."""
    spans: dict[str, list[Row]] = defaultdict(list)
    for span in store.rows("findings/price", keys=list(findings)):
        spans[span["key"]].append(span)
    without_claims = [key for key, row in findings.items() if row["wasted_units"] != "0" and key not in spans]
    prices = store.rows("findings/mean_price", keys=without_claims) if without_claims else []
    for key in without_claims:
        spans[key] = _spread(findings[key], [price for price in prices if price["key"] == key])
    return {key: _sum(spans[key]) for key in findings}


def main_bucket(declared: str | None, claimed: Mapping[str, Fraction]) -> str | None:
    """The bucket with most of what the ledger granted; the one that its rule names where it granted nothing."""
    if declared is None or not claimed:
        return declared
    return max(sorted(claimed), key=lambda bucket: (claimed[bucket], bucket == declared))


def _spread(finding: Row, prices: Sequence[Row]) -> list[Row]:
    """The waste of a finding without stored claims, spread over the prices of its devices, as in finding_amount."""
    total = sum(int(p["overlap_us"]) for p in prices)
    if not total:
        return [{"bucket": finding["bucket"], "model": None, "usd_per_gpu_hour": None, "units": "0", "den": 1}]
    units, den = int(finding["wasted_units"]), finding["wasted_den"] * total
    return [p | {"bucket": finding["bucket"], "units": units * int(p["overlap_us"]), "den": den} for p in prices]


def _sum(parts: Sequence[Row]) -> Price:
    claimed: dict[str, Fraction] = defaultdict(Fraction)
    cost = Fraction(0)
    for part in parts:
        gpu_us = Fraction(int(part["units"]), int(part["den"]))
        claimed[part["bucket"]] += gpu_us / SECOND_US
        cost += Fraction(part["usd_per_gpu_hour"] or 0) * gpu_us / HOUR_US
    lacking = sorted({p["model"] or "unknown model" for p in parts if p["usd_per_gpu_hour"] is None})
    if lacking:
        return Price(None, None, f"no rate for {', '.join(lacking)}: add a line to rates.csv", claimed)
    currencies = sorted({p["currency"] for p in parts})
    if len(currencies) > 1:
        return Price(None, None, f"prices in {' and '.join(currencies)} do not add up", claimed)
    return Price(cost, currencies[0] if currencies else None, None, claimed)
