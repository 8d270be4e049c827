"""Lines of a charge that the live ledger does not have: corrections, and what a closed period has frozen."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from decimal import Decimal
from typing import Any

from gpuwatch.billing.charge_id import Asked
from gpuwatch.billing.periods.billed import CORRECTION, frozen_answer
from gpuwatch.billing.periods.corrections.repository import Correction, Corrections
from gpuwatch.billing.periods.repository import Closing, Periods
from gpuwatch.billing.records import Charge
from gpuwatch.core.clock import rfc3339
from gpuwatch.core.money import CENT_PLACES, EXACT_PLACES
from gpuwatch.ledger.totals import SECOND_PLACES
from gpuwatch.state import State

__all__ = [
    "CORRECTION", "Frozen", "correction_lines", "corrections", "difference", "frozen", "frozen_head", "plain_line",
    "sums",
]  # fmt: skip


@dataclass(frozen=True)
class Frozen:
    """The closed period whose window a charge has, and its frozen row; None where it has none that may be seen."""

    closing: Closing
    charge: Charge | None


def frozen(state: State, asked: Asked, teams: Collection[str] | None) -> Frozen | None:
    """The frozen row of a charge id; None if the live ledger answers its window."""
    closing = Periods(state).at(asked.window)
    by = [name for name, _ in asked.group]
    answer = frozen_answer(state, asked.window, by, asked.cluster, teams, pool=asked.pool)
    if closing is None or answer is None:
        return None
    group = dict(asked.group)
    rows = [
        one
        for one in answer.items
        if (one.group, one.kind, one.currency, one.cause) == (group, asked.kind, asked.currency, asked.cause)
    ]
    if not rows:
        return Frozen(closing, None)
    first = rows[0]
    # Rows without a price are frozen_head apart by more words than their id has.
    for one in rows[1:]:
        first = Charge(
            group=first.group,
            kind=first.kind,
            gpu_seconds=first.gpu_seconds + one.gpu_seconds,
            cost=None,
            cost_exact=None,
            currency=None,
            error=first.error,
            cause=first.cause,
            gpu_seconds_exact=_seconds(first) + _seconds(one),
        )
    return Frozen(closing, first)


def frozen_head(found: Frozen, teams: Collection[str] | None = None) -> dict[str, Any]:
    """The head of a charge that a closed period has frozen; with `teams` without the digest of everybody's rows."""
    charge, closing = found.charge, found.closing
    assert charge is not None
    return sums(_seconds(charge), charge.cost_exact, charge.cost, charge.gpu_seconds) | {
        "error": charge.error,
        "closed": {
            "period": closing.name,
            "number": closing.number,
            "digest": closing.digest if teams is None else None,
        },
    }


def difference(found: Frozen, live: Mapping[str, Any]) -> dict[str, Any] | None:
    """The line from the live ledger's amount to the frozen one; None if nothing has changed since."""
    charge = found.charge
    assert charge is not None
    seconds = _seconds(charge) - Decimal(live["gpu_seconds_exact"])
    cost = None if charge.cost_exact is None else charge.cost_exact - Decimal(live["cost_exact"])
    if not seconds and not cost:
        return None
    text = f"Period {found.closing.name} is closed: what the ledger has learned since is billed by its corrections."
    return plain_line("frozen", text, seconds, cost) | {"period": found.closing.name, "number": found.closing.number}


def corrections(state: State, asked: Asked, teams: Collection[str] | None) -> list[Correction]:
    """The posted lines that a charge of kind correction is the sum of, in the order of posting."""
    closing = Periods(state).at(asked.window)
    by = [name for name, _ in asked.group]
    own = None
    if (
        closing is not None
        and frozen_answer(state, asked.window, by, asked.cluster, teams, pool=asked.pool) is not None
    ):
        own = closing.name
    return [
        one
        for one in Corrections(state).billed(asked.window, own)
        if one.currency == asked.currency
        and (teams is None or one.words["team"] in teams)
        and (asked.cluster is None or one.words["cluster"] == asked.cluster)
        and (asked.pool is None or one.words["pool"] == asked.pool)
        and all(one.words.get(name) == value for name, value in asked.group)
    ]


def correction_lines(found: Sequence[Correction]) -> list[dict[str, Any]]:
    """Posted lines as lines of a charge."""
    return [
        plain_line(CORRECTION, f"Correction of period {one.period}: {one.why}", one.gpu_seconds, one.cost_exact)
        | {
            "period": one.period,
            "number": one.number,
            "posted": rfc3339(one.posted_us),
            "owner": one.words.get("team"),
            "job": one.words.get("job"),
            "user": one.words.get("user"),
            "gpu_model": one.words.get("gpu_model"),
            "mig_profile": one.words.get("mig_profile"),
            "cluster": one.words.get("cluster"),
            "pool": one.words.get("pool"),
        }
        for one in found
    ]


def plain_line(what: str, text: str, seconds: Decimal, cost: Decimal | None) -> dict[str, Any]:
    """A line that is an amount and its reason."""
    return {"what": what, "text": text, "gpu_seconds": _text(seconds), "cost_exact": _text(cost)}


def sums(
    seconds: Decimal, exact: Decimal | None, cost: Decimal | None, published: Decimal | None = None
) -> dict[str, Any]:
    """GPU-seconds and cost of a charge, exact and published."""
    return {
        "gpu_seconds": f"{seconds if published is None else published:.{SECOND_PLACES}f}",
        "gpu_seconds_exact": _text(seconds),
        "cost": None if cost is None else f"{cost:.{CENT_PLACES}f}",
        "cost_exact": _text(exact),
    }


def _seconds(charge: Charge) -> Decimal:
    return charge.gpu_seconds if charge.gpu_seconds_exact is None else charge.gpu_seconds_exact


def _text(value: Decimal | None) -> str | None:
    return None if value is None else f"{value:.{EXACT_PLACES}f}"
