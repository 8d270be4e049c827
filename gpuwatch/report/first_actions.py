"""What to do first: open findings grouped by cause, in the order of gpuwatch/findings/ranking.py. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import Any

from gpuwatch.core.clock import DAY_US
from gpuwatch.core.money import CENT_PLACES, format_quantity
from gpuwatch.findings.priority import HOUR_S, Rate, cost_a_day, size
from gpuwatch.findings.ranking import NO_MONEY, Order, Part, order, order_of, part, ranked, score
from gpuwatch.findings.read import Finding, facts_of, lost_of
from gpuwatch.findings.so_far import amounts_so_far, so_far
from gpuwatch.findings.texts import SEVERITY_ORDER, severity_of
from gpuwatch.jobs.loss_parts import LISTED_MAX, REMEDIES, LossPart
from gpuwatch.jobs.loss_parts import remedy as remedy_of
from gpuwatch.ledger.measures import NOT_MEASURED
from gpuwatch.output.listing import BUCKET_WORDS
from gpuwatch.policy.ownership import PLATFORM
from gpuwatch.report import text as report_text

ACTIONS_MAX, KEYS_MAX, OWNERS_MAX, NODES_MAX = 20, 50, 5, 5
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
    parts: tuple[LossPart, ...] = ()
    """By team and kind of work, where the loss is of jobs."""
    title: str = ""
    summary: str = ""
    remedy: str = ""
    """Of its largest cause, where the causes are known."""

    @property
    def a_day(self) -> Rate:
        """Of the covered part of the window."""
        days = Fraction(max(self.elapsed_us, DAY_US), DAY_US)
        return Rate(None if self.cost is None else self.cost / days, self.gpu_seconds / HOUR_S / days)


_Part = Part[Finding]


def first_actions(
    findings: Iterable[Finding],
    loss: Loss | None,
    now_us: int,
    currency: str | None = None,
    mean_price: Fraction | None = None,
) -> list[dict[str, Any]]:
    """At most ACTIONS_MAX actions, the first one first. `findings` are open, and none of their owners set them aside.

    The findings of one rule are one action. `loss` is always among them: findings that claim its bucket are part of it if they
    explain most of it.
    `mean_price` is the cost of a GPU-hour in `currency`. Costs a day are of findings in `currency` only.
    """

    every = [_part(one, now_us, currency, mean_price) for one in findings]
    claims = [one for one in every if loss is not None and one.finding.bucket == loss.bucket and not one.saves]
    whole = loss is not None and (loss.bucket == NOT_MEASURED or _most(claims, loss.a_day))
    inside = {one.key for one in claims} if whole else set()

    def group(one: _Part) -> tuple[str]:
        return (LOSS if one.key in inside else one.finding.detector,)

    made: list[tuple[Order, dict[str, Any]]] = []
    mine: Sequence[_Part] = ()
    for (name,), parts in ranked(every, group):
        if name == LOSS:
            mine = parts
        else:
            made.append((order(parts), _of_findings(name, parts, now_us, currency)))
    if loss is not None and loss.gpu_seconds:
        made.append(_of_loss(loss, mine, currency, mean_price))
    made.sort(key=lambda pair: (pair[0], pair[1]["id"]))
    shown = made[:ACTIONS_MAX]
    shown += [pair for pair in made[ACTIONS_MAX:] if pair[1]["loss"]]
    return [{"rank": place, **action} for place, (_, action) in enumerate(shown, 1)]


def _part(finding: Finding, now_us: int, currency: str | None, mean_price: Fraction | None) -> _Part:
    found = facts_of(finding)
    rate, saves = cost_a_day(found, now_us, currency)
    return part(finding, finding.key, found, rate, saves, mean_price)


def _of_findings(detector: str, parts: Sequence[_Part], now_us: int, currency: str | None) -> dict[str, Any]:
    first = parts[0].finding
    return {
        "id": detector,
        "title": first.title,
        "summary": first.summary,
        "remedy": first.remedy,
        "severity": _worst(parts),
        "loss": None,
        "lost_work": _lost(parts, currency),
        **_amounts(_sum(parts), any(one.saves for one in parts), currency),
        **so_far((facts_of(one.finding) for one in parts), now_us, currency),
        **_members(parts),
        "owners": _owners([((one.finding.team, one.finding.user), one.rate) for one in parts], currency),
    }


def _of_loss(
    loss: Loss, parts: Sequence[_Part], currency: str | None, mean_price: Fraction | None
) -> tuple[Order, dict[str, Any]]:
    rate = loss.a_day
    unmeasured = loss.bucket == NOT_MEASURED  # nobody knows what of it is waste
    own = "low" if unmeasured else severity_of(loss.cost, loss.elapsed_us)
    worst = max([own, *(one.finding.severity for one in parts)], key=SEVERITY_ORDER.index)
    carrying = parts if unmeasured else _carrying(parts, rate)

    def words(size: Rate) -> str:
        return report_text.worth(size.cost, size.hours, currency).replace(report_text.GAP, " ")

    first = carrying[0].finding if carrying else None
    held = [(PLATFORM, rate)] if unmeasured else loss.teams  # it runs the exporters
    owners = _owners([((team, None), part) for team, part in held], currency)
    action = {
        "id": f"{LOSS}{loss.bucket}",
        "title": loss.title or BUCKET_WORDS[loss.bucket],
        "summary": loss.summary or (first.summary if first else None),
        "remedy": loss.remedy
        or (first.remedy if first else remedy_of(loss.bucket, loss.parts, words) or REMEDIES[loss.bucket]),
        "severity": worst,
        "loss": {
            "bucket": loss.bucket,
            "gpu_seconds": format_quantity(loss.gpu_seconds),
            "cost": _money(loss.cost),
            "parts": [one.as_dict() for one in loss.parts[:LISTED_MAX]],
            "parts_total": len(loss.parts),
        },
        "lost_work": None,
        **_amounts(rate, False, currency),
        "day_rate": loss.elapsed_us >= DAY_US,
        **amounts_so_far(Rate(loss.cost, loss.gpu_seconds / HOUR_S)),
        **_members(parts),
        "owners": owners,
    }
    place = (NO_MONEY, -size(rate, mean_price)) if unmeasured else order_of(size(rate, mean_price))
    return (min(place, order(parts)) if parts else place), action


def _most(parts: Iterable[_Part], whole: Rate) -> bool:
    """Whether findings explain most of a loss, by their amounts a day."""
    found = _sum(parts)
    if whole.cost is not None and found.cost is not None:
        return found.cost * 2 >= whole.cost
    return bool(found.hours) and found.hours * 2 >= whole.hours


def _carrying(parts: Sequence[_Part], whole: Rate) -> list[_Part]:
    """The findings whose common remedy is one for most of a loss; none if no remedy is."""
    by_remedy: dict[str, list[_Part]] = {}
    for one in parts:
        by_remedy.setdefault(one.finding.remedy, []).append(one)
    return next((mine for mine in by_remedy.values() if _most(mine, whole)), [])


def _lost(parts: Sequence[_Part], currency: str | None) -> dict[str, Any] | None:
    """The work that these findings report as lost, since each began; None for other findings."""
    found = [lost for one in parts if (lost := lost_of(one.finding)) is not None]
    if not found:
        return None
    costs = [lost.cost for lost in found if lost.cost is not None and lost.currency == currency]
    cost = sum(costs, Fraction(0)) if len(costs) == len(found) else None
    return {
        "gpu_seconds": format_quantity(sum((lost.hours for lost in found), Fraction(0)) * HOUR_S),
        "cost": _money(cost),
    }


def _members(parts: Sequence[_Part]) -> dict[str, Any]:
    """The findings of an action: how many, of which rules, about what, and how certain."""
    whole = score(parts)
    nodes = dict.fromkeys(node for one in parts for node in one.finding.nodes)
    certain = sum((one.score * _confidence(one.finding) for one in parts), Fraction(0))
    return {
        "findings": len(parts),
        "keys": [one.finding.key for one in parts[:KEYS_MAX]],
        "detectors": sorted({one.finding.detector for one in parts}),
        "subject": {**parts[0].finding.subject, "cluster": parts[0].finding.cluster} if len(parts) == 1 else None,
        "gpu_index": parts[0].finding.gpu_index if len(parts) == 1 else None,
        "nodes": list(nodes)[:NODES_MAX],
        "nodes_total": len(nodes),
        "certainty": float(certain / whole) if whole else max((one.finding.confidence for one in parts), default=1.0),
        "at_risk_gpu_hours_a_day": format_quantity(sum((one.at_risk_hours for one in parts), Fraction(0)), 1),
        "since": min((one.finding.started_at for one in parts), default=None),
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
    return sum((one.rate for one in parts), Rate())


def _worst(parts: Iterable[_Part]) -> str:
    return max((one.finding.severity for one in parts), key=SEVERITY_ORDER.index)


def _confidence(finding: Finding) -> Fraction:
    return Fraction(str(finding.confidence))


def _money(amount: Fraction | None) -> str | None:
    return None if amount is None else format_quantity(amount, CENT_PLACES)
