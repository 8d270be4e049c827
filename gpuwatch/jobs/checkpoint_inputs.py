"""Inputs of the checkpoint check: the question, and what the fleet measured of failures, stalls and prices."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from decimal import Decimal
from fractions import Fraction
from math import isfinite
from typing import Any

from gpuwatch.advisor import checkpointing as formulas
from gpuwatch.advisor.inputs import money, pools_at_end, priced_now
from gpuwatch.core.clock import HOUR_US, MINUTE_US, Window, parse_rfc3339
from gpuwatch.core.errors import UsageError
from gpuwatch.findings import read as findings
from gpuwatch.ledger.totals import scale_of
from gpuwatch.rates.commitments import counted
from gpuwatch.rates.models import model_tokens
from gpuwatch.store.database import Store

STALL_SHARE = Decimal("0.05")
"""Where the detector checkpoint-stall begins to report."""
MOST = {
    "params": Decimal(10**16),
    "gpus": Decimal(10**7),
    "write_gbps": Decimal(10**9),
    "bytes_per_param": Decimal(1000),
    "interval_minutes": Decimal(525_600),
    "background_seconds": Decimal(86_400),
    "restart_minutes": Decimal(525_600),
    "interruptions_per_million_gpu_hours": Decimal(10**9),
    "gpu_price": Decimal(100_000),
}
"""The most that each option takes; each must be above 0, except a restart, which may take no time."""

Row = dict[str, Any]


@dataclass(frozen=True)
class Question:
    """What is asked. None: not given. Raises UsageError for a value that is out of range."""

    params: Decimal
    gpus: Decimal
    write_gbps: Decimal | None = None
    precision: str = "bf16"
    optimizer: str = "adamw"
    bytes_per_param: Decimal | None = None
    stall_share: Decimal = STALL_SHARE
    interval_minutes: Decimal | None = None
    background_seconds: Decimal | None = None
    restart_minutes: Decimal | None = None
    interruptions_per_million_gpu_hours: Decimal | None = None
    gpu_price: Decimal | None = None
    model: str | None = None
    cluster: str | None = None

    def __post_init__(self) -> None:
        for name, most in MOST.items():
            value: Decimal | None = getattr(self, name)
            least_met = value is None or value > 0 or (name == "restart_minutes" and value == 0)
            if value is not None and not (least_met and value <= most):
                raise UsageError(f"{name} {value}: give a number above 0, at most {most:,f}")
        if not 0 < self.stall_share < 1:
            raise UsageError(f"stall_share {self.stall_share}: give a share between 0 and 1, such as 0.05")
        for name, value_, known in (
            ("precision", self.precision, formulas.PRECISIONS),
            ("optimizer", self.optimizer, formulas.OPTIMIZERS),
        ):
            if value_ not in known:
                raise UsageError(f"{name} {value_!r}: use {', '.join(known)}")


_WORDS = {"": 1, "K": 10**3, "M": 10**6, "B": 10**9, "T": 10**12}
_TEXTS = ("precision", "optimizer", "model", "cluster")


def question_of(**given: str | None) -> Question:
    """The question with numbers as text (`70e9`, `70B`). Raises UsageError naming the option."""
    known: dict[str, Any] = {}
    for name, text in given.items():
        if text is None:
            continue
        known[name] = text if name in _TEXTS else _amount(name, text)
    return Question(**known)


def _amount(name: str, text: str) -> Decimal:
    digits = text.strip().upper()
    factor = _WORDS.get(digits[-1:], 1) if name == "params" else 1
    try:
        amount = Decimal(digits[:-1] if factor > 1 else digits) * factor
        if amount.is_finite():
            return amount
    except ArithmeticError:
        pass
    raise UsageError(f"{name} {text!r}: not a number such as {'70e9 or 70B' if name == 'params' else '0.5'}")


@dataclass(frozen=True)
class Fleet:
    """What the fleet measured in the window; None is unknown."""

    gpu_hours: float = 0.0
    interruptions: int | None = None
    hours: float | None = None
    """Hours of the window that the ledger covers."""
    stalls: tuple[Row, ...] = ()
    price: Fraction | None = None
    currency: str | None = None
    notes: tuple[str, ...] = ("no fleet data: failure rate, prices and stalls of the fleet are unknown",)


def read_fleet(store: Store, question: Question, window: Window) -> Fleet:
    """Interruptions, checkpoint stalls and the GPU price of the fleet in a window."""
    covered = counted(store, window)
    if covered is None:
        return Fleet(notes=("the ledger has nothing in this window: choose another window",))
    models = _models(store, question.model)
    row = store.rows(
        "jobs/interruption",
        start_us=covered.start_us,
        end_us=covered.end_us,
        cluster=question.cluster,
        models=models,
    )[0]
    price, currency = _price(store, window, question.cluster, models)
    known = row["gpu_hours"] > 0 and row["ended_runs"] > 0
    notes = [] if known else ["no run with a known end state in this window: the failure rate of the fleet is unknown"]
    return Fleet(
        row["gpu_hours"],
        row["interruptions"] if known else None,
        (covered.end_us - covered.start_us) / HOUR_US,
        tuple(_stalls(store, covered, question.cluster)),
        price,
        currency,
        tuple(notes),
    )


def _models(store: Store, wanted: str | None) -> list[str] | None:
    """The models of the fleet with the words of `wanted`. Raises UsageError where there is none."""
    if wanted is None:
        return None
    known = sorted(name for (name,) in store.sql("select distinct model from device where model is not null"))
    words = model_tokens(wanted)
    found = [name for name in known if words and words <= model_tokens(name)]
    if not found:
        raise UsageError(f"model {wanted!r}: the fleet has {', '.join(known) or 'no GPU with a known model'}")
    return found


def _price(
    store: Store, window: Window, cluster: str | None, models: list[str] | None
) -> tuple[Fraction | None, str | None]:
    """The mean price of a GPU-hour at the end of the window; None where a GPU has none, or currencies differ."""
    scale = scale_of(store, window)
    pools = [
        priced_now(row["prices"], scale)
        for row in pools_at_end(store, window, scale, cluster)
        if models is None or row["gpu_model"] in models
    ]
    currencies = {pool.currency for pool in pools}
    costs = [pool.cost for pool in pools]
    there = sum((pool.there for pool in pools), Fraction(0))
    if len(currencies) != 1 or not there or any(cost is None for cost in costs):
        return None, None
    return sum((cost or Fraction(0) for cost in costs), Fraction(0)) / there, currencies.pop()


def _stalls(store: Store, covered: Window, cluster: str | None) -> list[Row]:
    """Findings of checkpoint-stall, most expensive first, with the part of their waste that is within the window.

    The waste of a finding is taken as even over its time.
    """
    rows = []
    for found in findings.read(store, detectors=["checkpoint-stall"], window=covered, cluster=cluster):
        start_us = parse_rfc3339(found.started_at)
        end_us = max(parse_rfc3339(found.ended_at or found.last_seen_at), start_us + MINUTE_US)
        inside = min(end_us, covered.end_us) - max(start_us, covered.start_us)
        part = Fraction(max(inside, 0), end_us - start_us)
        cost = None if found.wasted_cost is None else Fraction(found.wasted_cost) * part
        rows.append(
            {
                "key": found.key,
                "cluster": found.cluster,
                "job": found.subject["id"],
                "team": found.team,
                "period_minutes": _number(found.evidence, "period_minutes"),
                "stall_ratio": _number(found.evidence, "duty_ratio"),
                "gpus": _number(found.evidence, "devices"),
                "gpu_seconds": float(Fraction(found.wasted_gpu_seconds) * part),
                "cost": money(cost),
                "currency": found.currency,
            }
        )
    return rows


def _number(evidence: Mapping[str, Any], name: str) -> float | None:
    value = evidence.get(name)
    return float(value) if isinstance(value, int | float) and isfinite(value) else None
