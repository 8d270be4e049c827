"""What to do first: open findings grouped by cause, ranked by severity, money a day and certainty. Pure.

The rank of an action is the sum of the priorities of its findings (gpuwatch/findings/priority.py), with the mean price of the
window.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import Any

from gpuwatch.core.clock import DAY_US
from gpuwatch.core.money import CENT_PLACES, format_quantity
from gpuwatch.findings.priority import (
    HOUR_S,
    Rate,
    at_risk_hours,
    cost_a_day,
    of_finding,
    priority,
    size,
)
from gpuwatch.findings.read import Finding, facts_of
from gpuwatch.findings.texts import ELAPSED_US_MIN, SEVERITY_ORDER, severity_of

ACTIONS_MAX, KEYS_MAX, OWNERS_MAX = 20, 50, 5
LOSS = "loss:"
"""How the id of the largest loss begins; its bucket follows."""


@dataclass(frozen=True)
class Loss:
    """The bucket that wasted most in the window, and the teams that held it, the largest first."""

    bucket: str
    cost: Fraction | None
    gpu_seconds: Fraction
    elapsed_us: int
    teams: tuple[tuple[str, Rate], ...] = ()

    @property
    def a_day(self) -> Rate:
        """Of the covered part of the window."""
        days = Fraction(max(self.elapsed_us, ELAPSED_US_MIN), DAY_US)
        return Rate(None if self.cost is None else self.cost / days, self.gpu_seconds / HOUR_S / days)


@dataclass(frozen=True)
class _Part:
    """A finding with what it costs and risks a day."""

    finding: Finding
    rate: Rate
    saves: bool
    at_risk_hours: Fraction
    score: Fraction


def first_actions(
    findings: Iterable[Finding],
    loss: Loss | None,
    now_us: int,
    currency: str | None = None,
    mean_price: Fraction | None = None,
) -> list[dict[str, Any]]:
    """At most ACTIONS_MAX actions, the first one first. `findings` are open, and none of their owners set them aside.

    The findings of one rule are one action. `loss` is always among them: findings that claim its bucket are part of it.
    `mean_price` is the cost of a GPU-hour in `currency`. Costs a day are of findings in `currency` only.
    """
    groups: dict[str, list[_Part]] = {}
    for finding in findings:
        one = _part(finding, now_us, currency, mean_price)
        in_loss = loss is not None and finding.bucket == loss.bucket and not one.saves
        groups.setdefault(LOSS if in_loss else finding.detector, []).append(one)
    mine = groups.pop(LOSS, [])
    made = [(_score(parts), _of_findings(detector, parts, currency)) for detector, parts in groups.items()]
    if loss is not None and loss.gpu_seconds:
        made.append(_of_loss(loss, mine, currency, mean_price))
    made.sort(key=lambda pair: (-pair[0], pair[1]["id"]))
    shown = made[:ACTIONS_MAX]
    shown += [pair for pair in made[ACTIONS_MAX:] if pair[1]["loss"]]
    return [{"rank": place, **action} for place, (_, action) in enumerate(shown, 1)]


def _part(finding: Finding, now_us: int, currency: str | None, mean_price: Fraction | None) -> _Part:
    found = facts_of(finding)
    rate, saves = cost_a_day(found, now_us, currency)
    score = of_finding(found, now_us, currency, mean_price)
    return _Part(finding, rate, saves, at_risk_hours(found, rate, saves), score)


def _score(parts: Sequence[_Part]) -> Fraction:
    return sum((part.score for part in parts), Fraction(0))


def _of_findings(detector: str, parts: Sequence[_Part], currency: str | None) -> dict[str, Any]:
    ranked = _ranked(parts)
    first = ranked[0].finding
    return {
        "id": detector,
        "title": first.title,
        "summary": first.summary,
        "remedy": first.remedy,
        "severity": _worst(ranked),
        "loss": None,
        **_amounts(_sum(ranked), any(part.saves for part in ranked), currency),
        **_members(ranked),
        "owners": _owners([((p.finding.team, p.finding.user), p.rate) for p in ranked], currency),
    }


def _of_loss(
    loss: Loss, parts: Sequence[_Part], currency: str | None, mean_price: Fraction | None
) -> tuple[Fraction, dict[str, Any]]:
    ranked, rate = _ranked(parts), loss.a_day
    own = severity_of(None if loss.cost is None else loss.cost, loss.elapsed_us)
    worst = max([own, *(part.finding.severity for part in ranked)], key=SEVERITY_ORDER.index)
    first = ranked[0].finding if ranked else None
    owners = _owners([((team, None), held) for team, held in loss.teams], currency)
    action = {
        "id": f"{LOSS}{loss.bucket}",
        "title": first.title if first else None,
        "summary": first.summary if first else None,
        "remedy": first.remedy if first else None,
        "severity": worst,
        "loss": {
            "bucket": loss.bucket,
            "gpu_seconds": format_quantity(loss.gpu_seconds),
            "cost": _money(loss.cost),
        },
        **_amounts(rate, False, currency),
        **_members(ranked),
        "owners": owners,
    }
    return max(priority(worst, size(rate, mean_price)), _score(ranked)), action


def _ranked(parts: Sequence[_Part]) -> list[_Part]:
    return sorted(parts, key=lambda part: (-part.score, part.finding.key))


def _members(ranked: Sequence[_Part]) -> dict[str, Any]:
    """The findings of an action: how many, of which rules, about what, and how certain."""
    whole = _score(ranked)
    certain = sum((part.score * _confidence(part.finding) for part in ranked), Fraction(0))
    return {
        "findings": len(ranked),
        "keys": [part.finding.key for part in ranked[:KEYS_MAX]],
        "detectors": sorted({part.finding.detector for part in ranked}),
        "subject": {**ranked[0].finding.subject, "cluster": ranked[0].finding.cluster} if len(ranked) == 1 else None,
        "certainty": float(certain / whole) if whole else max((p.finding.confidence for p in ranked), default=1.0),
        "at_risk_gpu_hours_a_day": format_quantity(sum((p.at_risk_hours for p in ranked), Fraction(0)), 1),
        "since": min((part.finding.started_at for part in ranked), default=None),
    }


def _amounts(rate: Rate, saves: bool, currency: str | None) -> dict[str, Any]:
    return {
        "cost_a_day": _money(rate.cost),
        "gpu_hours_a_day": format_quantity(rate.hours, 1),
        "currency": None if rate.cost is None else currency,
        "saves": saves,
    }


def _owners(parts: Iterable[tuple[tuple[str, str | None], Rate]], currency: str | None) -> dict[str, Any]:
    """Whom to ask: the owners with the largest part, and how many there are. Nobody held what belongs to the platform."""
    sums: dict[tuple[str, str | None], Rate] = {}
    for owner, rate in parts:
        sums[owner] = sums.get(owner, Rate()) + rate
    ranked = sorted(sums, key=lambda who: (-(sums[who].cost or 0), -sums[who].hours, who[0], who[1] or ""))
    items = [
        {"team": team, "user": user, **_amounts(sums[team, user], False, currency)}
        for team, user in ranked[:OWNERS_MAX]
    ]
    return {"items": [{name: one[name] for name in _OWNER} for one in items], "total": len(ranked)}


_OWNER = ("team", "user", "cost_a_day", "gpu_hours_a_day")


def _sum(parts: Iterable[_Part]) -> Rate:
    return sum((part.rate for part in parts), Rate())


def _worst(parts: Iterable[_Part]) -> str:
    return max((part.finding.severity for part in parts), key=SEVERITY_ORDER.index)


def _confidence(finding: Finding) -> Fraction:
    return Fraction(str(finding.confidence))


def _money(amount: Fraction | None) -> str | None:
    return None if amount is None else format_quantity(amount, CENT_PLACES)
