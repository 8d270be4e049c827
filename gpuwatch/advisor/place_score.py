"""The score of a place for a job, from what is known of it. Pure.

The score is a product of two ratios, both 1 at best: run time on the best links / time until the job is done, and the least
cost of all candidates / its cost. What is unknown has no score, only a bound: the score if the unknown were the best possible.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from fractions import Fraction
from typing import Any

from gpuwatch.advisor.inputs import money
from gpuwatch.advisor.place_question import Question
from gpuwatch.hardware.links import slowdown

EXPOSED = 0.07
"""Assumed share of a step that waits for communication on the best links: the middle of 2.9 to 11.1 %, the range that gives
the published losses of 15 to 40 % (topology/grade.py)."""
Row = dict[str, Any]


@dataclass
class Candidate:
    """A pool or cloud. None is unknown; `unknown` names what lacks, with the fix."""

    kind: str
    site: str
    cluster: str | None
    pool: str | None
    gpu_model: str | None
    gpus: int | None = None
    free_gpus: int | None = None
    fits: str | None = None
    gb_per_s: float | None = None
    wait_seconds: float | None = None
    price: Fraction | None = None
    transfer_seconds: float | None = None
    egress: Fraction | None = None
    refused: str | None = None
    reasons: list[str] = field(default_factory=list)
    unknown: list[str] = field(default_factory=list)


def ranked(found: Sequence[Candidate], question: Question, currency: str) -> list[Row]:
    """The rows, best first: those with a score, those with a bound, those that cannot hold the job."""
    best = max((one.gb_per_s for one in found if one.gb_per_s and not one.refused), default=None)
    speeds = [_speed(one, best, question.gpus) for one in found]
    costs = [_cost(one, question, speed) for one, speed in zip(found, speeds, strict=True)]
    known = [
        cost for one, (cost, whole) in zip(found, costs, strict=True) if cost is not None and whole and not one.refused
    ]
    least = min(known, default=None)
    rows = [
        _row(one, question, currency, speed, cost, least) for one, speed, cost in zip(found, speeds, costs, strict=True)
    ]
    rows.sort(key=_order)
    return [{"rank": None if row["score_most"] is None else place + 1, **row} for place, row in enumerate(rows)]


def _order(row: Row) -> tuple[Any, ...]:
    bound = row["score_most"]
    name = (row["site"], row["cluster"] or "", row["pool"] or "", row["gpu_model"] or "")
    return bound is None, row["score"] is None, -(bound or 0.0), name


def _speed(one: Candidate, best: float | None, gpus: int) -> float | None:
    """How fast a step is, 1 on the best links of all candidates; None unknown."""
    if gpus == 1:
        return 1.0
    if one.gb_per_s is None or best is None:
        return None
    return 1 / slowdown(EXPOSED, max(best / one.gb_per_s, 1.0))


def _cost(one: Candidate, question: Question, speed: float | None) -> tuple[Fraction | None, bool]:
    """The least that the job costs there, and whether that is all of it. None: no price."""
    if one.price is None:
        return None, False
    hours = question.hours / Fraction(speed or 1.0)
    whole = speed is not None and one.egress is not None
    return one.price * question.gpus * hours + (one.egress or 0), whole


def _row(
    one: Candidate,
    question: Question,
    currency: str,
    speed: float | None,
    cost: tuple[Fraction | None, bool],
    least: Fraction | None,
) -> Row:
    amount, whole = cost
    run = float(question.hours) * 3600
    known_time = None not in (speed, one.wait_seconds, one.transfer_seconds)
    # Data moves while the job waits in the queue.
    ready = max(one.wait_seconds or 0.0, one.transfer_seconds or 0.0)
    done = ready + run / (speed or 1.0)
    time_ratio = run / done
    cost_ratio = 1.0 if amount is None or least is None or not amount else min(float(least / amount), 1.0)
    most = None if one.refused else round(time_ratio * cost_ratio, 4)
    reasons = [one.refused] if one.refused else [*one.reasons, *_speed_reason(speed), *one.unknown]
    scored = known_time and whole and least is not None and not one.refused
    return {
        "kind": one.kind,
        "site": one.site,
        "cluster": one.cluster,
        "pool": one.pool,
        "gpu_model": one.gpu_model,
        "score": most if scored else None,
        "score_most": most,
        "gpus": one.gpus,
        "free_gpus": one.free_gpus,
        "fits": one.fits,
        "gb_per_s": one.gb_per_s,
        "topology_ratio": None if speed is None else round(speed, 4),
        "wait_seconds": one.wait_seconds,
        "transfer_seconds": one.transfer_seconds,
        "done_seconds": round(done, 1) if known_time and not one.refused else None,
        "time_ratio": round(time_ratio, 4) if known_time and not one.refused else None,
        "price": money(one.price, 6),
        "egress_cost": money(one.egress),
        "cost": money(amount) if whole and not one.refused else None,
        "cost_ratio": round(cost_ratio, 4) if scored else None,
        "currency": currency,
        "reasons": reasons,
    }


def _speed_reason(speed: float | None) -> list[str]:
    if speed is None or speed > 0.9999:
        return []
    return [f"a step takes about {1 / speed:.2f} times as long as on the best links"]
