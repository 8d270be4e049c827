"""The checkpoint check: what saving a model costs, how often to save, and what the fleet's checkpoint stalls cost today."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from decimal import Decimal
from fractions import Fraction

from gpuwatch.advisor import checkpointing as formulas
from gpuwatch.advisor.formulas import HOURS_A_MONTH
from gpuwatch.advisor.inputs import money
from gpuwatch.core.clock import Window, rfc3339
from gpuwatch.core.words import duration, size
from gpuwatch.jobs.checkpoint_inputs import Fleet, Question, Row, read_fleet
from gpuwatch.rules.rule import count
from gpuwatch.store.database import Store

RESTART_MINUTES = Decimal(10)
GIVEN, FORMULA, MEASURED, GUESS, UNKNOWN = "given", "formula", "measured", "guess", "unknown"
STALLS_MAX = 50
GB = 10**9
SECONDS_A_MINUTE = 60


TITLES = {
    "bytes_per_param": "Saved per parameter",
    "checkpoint_bytes": "Checkpoint size",
    "interruptions_per_million_gpu_hours": "Failures per million GPU-hours",
    "mean_time_to_failure_seconds": "Mean time to a failure (M)",
    "write_seconds": "Time to write a checkpoint",
    "needed_write_gbps": "Write bandwidth needed",
    "stall_seconds": "GPUs wait for each checkpoint (C)",
    "interval_young_seconds": "Best interval, by Young",
    "interval_daly_seconds": "Best interval, by Daly",
    "stall_ratio": "Share of time in checkpoints",
    "lost_ratio": "Share of time without progress",
    "write_ends_in_time": "Write ends before the next",
    "stall_cost_a_month": "Cost of waiting, per month",
    "lost_cost_a_month": "Cost of all lost time, per month",
    "fleet_stall_gpu_hours_a_month": "The fleet's checkpoint stalls, per month",
    "fleet_stalls_a_month": "Cost of the fleet's stalls, per month",
}


@dataclass(frozen=True)
class Fact:
    """One number of the answer; `value` None is unknown. `basis` is where it comes from, `source` says how."""

    name: str
    value: float | str | None
    unit: str
    text: str
    basis: str
    source: str


def check(store: Store | None, question: Question, window: Window | None) -> Row:
    """Size, bandwidth and interval of checkpoints, and what stalls cost. Without a store only what needs no fleet."""
    fleet = Fleet() if store is None or window is None else read_fleet(store, question, window)
    facts = _facts(question, fleet)
    asked = {
        name: f"{value:f}" if isinstance(value, Decimal) else None if value is None else str(value)
        for name, value in asdict(question).items()
    }
    return {
        "items": [{"title": TITLES[fact.name], **asdict(fact)} for fact in facts],
        "sizes": sizes(question.params),
        "stalls": fleet.stalls[:STALLS_MAX],
        "assumptions": asked,
        "notes": list(fleet.notes),
        "window": None if window is None else {"start": rfc3339(window.start_us), "end": rfc3339(window.end_us)},
    }


def sizes(params: Decimal) -> list[Row]:
    """The size of a checkpoint for each precision and optimizer."""
    rows = []
    for precision in formulas.PRECISIONS:
        for optimizer in formulas.OPTIMIZERS:
            each = formulas.bytes_per_parameter(precision, optimizer)
            rows.append(
                {
                    "precision": precision,
                    "optimizer": optimizer,
                    "bytes_per_param": each,
                    "bytes": round(float(params) * each),
                }
            )
    return rows


# Facts -------------------------------------------------------------------------------------------------------------


def _facts(question: Question, fleet: Fleet) -> list[Fact]:
    params, gpus = float(question.params), float(question.gpus)
    each, how = _bytes_per_parameter(question)
    whole = params * each
    facts = [
        Fact("bytes_per_param", each, "bytes", f"{each:g} bytes per parameter", *how),
        Fact("checkpoint_bytes", whole, "bytes", size(whole), FORMULA, f"{params:,.0f} parameters x {each:g} bytes"),
    ]
    rate, rate_fact = _rate(question, fleet)
    mttf = 3600 / (rate * gpus)
    facts += [
        rate_fact,
        Fact(
            "mean_time_to_failure_seconds", mttf, "seconds", duration(mttf), rate_fact.basis,
            f"1 / (rate x {gpus:g} GPUs)",
        ),
    ]  # fmt: skip
    write = None if question.write_gbps is None else whole / (float(question.write_gbps) * GB)
    facts.append(_write_fact(question, write))
    facts += _interval_facts(question, fleet, whole, write, mttf)
    return facts + _today(fleet)


def _bytes_per_parameter(question: Question) -> tuple[float, tuple[str, str]]:
    if question.bytes_per_param is not None:
        return float(question.bytes_per_param), (GIVEN, "bytes_per_param")
    each = formulas.bytes_per_parameter(question.precision, question.optimizer)
    weights, state = formulas.PRECISIONS[question.precision], formulas.OPTIMIZERS[question.optimizer]
    master = each - weights - state
    parts = [f"{question.precision} weights {weights}"]
    parts += [f"fp32 master weights {master:g}"] if master else []
    parts += [f"{question.optimizer} state {state:g}"] if state else []
    return each, (FORMULA, " + ".join(parts))


def _rate(question: Question, fleet: Fleet) -> tuple[float, Fact]:
    """Interruptions an hour and GPU: given, measured, or the published rate as a guess."""
    name, unit = "interruptions_per_million_gpu_hours", "1/10^6 GPU-hours"
    if question.interruptions_per_million_gpu_hours is not None:
        rate = float(question.interruptions_per_million_gpu_hours) / 1e6
        return rate, Fact(name, rate * 1e6, unit, f"{rate * 1e6:g}", GIVEN, name)
    if fleet.interruptions:
        rate = fleet.interruptions / fleet.gpu_hours
        source = f"{fleet.interruptions} runs ended by a node failure in {fleet.gpu_hours:,.0f} GPU-hours of this fleet"
        return rate, Fact(name, rate * 1e6, unit, f"{rate * 1e6:.3g}", MEASURED, source)
    rate = formulas.INTERRUPTIONS_PER_GPU_HOUR
    source = "Llama 3 405B training: 419 interruptions in 54 days on 16,384 GPUs; not this fleet"
    if fleet.interruptions == 0:
        # No event in H hours excludes a rate above 3/H with 95 % confidence (the rule of three).
        most = 3e6 / fleet.gpu_hours
        source += f". This fleet had none in {fleet.gpu_hours:,.0f} GPU-hours, so at most {most:.3g} (95 % confidence)"
    return rate, Fact(name, rate * 1e6, unit, f"{rate * 1e6:.3g}", GUESS, source)


def _write_fact(question: Question, write: float | None) -> Fact:
    if write is None:
        return Fact("write_seconds", None, "seconds", "unknown", UNKNOWN, "give the write bandwidth")
    given = float(question.write_gbps or 0)
    source = f"size / {given:g} GB/s ({given * 8:g} Gbit/s)"
    return Fact("write_seconds", write, "seconds", duration(write), FORMULA, source)


def _interval_facts(question: Question, fleet: Fleet, whole: float, write: float | None, mttf: float) -> list[Fact]:
    background = question.background_seconds
    stall = write if background is None else float(background)
    asked = None if question.interval_minutes is None else float(question.interval_minutes) * SECONDS_A_MINUTE
    if stall is None:
        return [_needed(question, whole, asked, mttf), *_unknown_plan()]
    restart = float(RESTART_MINUTES if question.restart_minutes is None else question.restart_minutes)
    unsaved = 0.0 if background is None or write is None else write
    plan = formulas.plan(stall, mttf, restart * SECONDS_A_MINUTE, asked, unsaved)
    facts = [
        _needed(question, whole, plan.interval if background is not None else asked, mttf),
        Fact("stall_seconds", stall, "seconds", duration(stall), *_stall_source(background)),
        Fact("interval_young_seconds", plan.young, "seconds", duration(plan.young), FORMULA, "Young: sqrt(2 C M)"),
        Fact(
            "interval_daly_seconds", plan.daly, "seconds", duration(plan.daly), FORMULA,
            "Daly: sqrt(2 C M) (1 + sqrt(C / 2M) / 3 + (C / 2M) / 9) - C, the interval that loses least",
        ),
    ]  # fmt: skip
    which = "Daly's interval" if asked is None else f"the given interval of {duration(asked)}"
    facts += [
        Fact(
            "stall_ratio", plan.stall_ratio, "ratio", f"{plan.stall_ratio:.2%}", FORMULA,
            f"C / (interval + C) at {which}; {_meets(plan.stall_ratio, question.stall_share)}",
        ),
        Fact(
            "lost_ratio", plan.lost_ratio, "ratio", f"{plan.lost_ratio:.2%}", FORMULA,
            f"stalls, repeated work and restarts of {restart:g} min"
            f"{' (a guess)' if question.restart_minutes is None else ''} at {which}",
        ),
    ]  # fmt: skip
    facts += _late(write, plan) if background is not None else []
    return facts + _monthly(question, fleet, plan)


def _stall_source(background: Decimal | None) -> tuple[str, str]:
    if background is None:
        return FORMULA, "GPUs wait for the whole write"
    return GIVEN, "GPUs wait for the copy, the write runs in the background"


def _meets(ratio: float, share: Decimal) -> str:
    return f"{'below' if ratio <= float(share) else 'above'} the chosen {float(share):.2%}"


def _late(write: float | None, plan: formulas.Plan) -> list[Fact]:
    """Whether a write in the background ends before the next one begins."""
    if write is None:
        return []
    late = write > plan.interval
    text = "no" if late else "yes"
    source = f"the write takes {duration(write)}, the interval is {duration(plan.interval)}"
    return [Fact("write_ends_in_time", float(not late), "0 or 1", text, FORMULA, source)]


def _needed(question: Question, whole: float, interval: float | None, mttf: float) -> Fact:
    share, background = float(question.stall_share), question.background_seconds is not None
    need = formulas.needed_bytes_per_second(whole, share, interval, mttf, background) / GB
    at = "Young's interval" if interval is None else f"an interval of {duration(interval)}"
    source = f"for at most {share:.2%} of the time in checkpoints at {at}"
    if background:
        source = f"for a write in the background that ends within {at}"
    return Fact("needed_write_gbps", need, "GB/s", f"{need:.3g} GB/s ({need * 8:.3g} Gbit/s)", FORMULA, source)


def _unknown_plan() -> list[Fact]:
    source = "needs the write bandwidth, or how long GPUs wait for each checkpoint"
    units = {"interval_young_seconds": "seconds", "interval_daly_seconds": "seconds"}
    names = (*units, "stall_ratio", "lost_ratio")
    return [Fact(name, None, units.get(name, "ratio"), "unknown", UNKNOWN, source) for name in names]


def _monthly(question: Question, fleet: Fleet, plan: formulas.Plan) -> list[Fact]:
    """What stalls, and all lost time, cost a month of 730 hours on these GPUs."""
    names = {"stall_cost_a_month": plan.stall_ratio, "lost_cost_a_month": plan.lost_ratio}
    given = question.gpu_price
    price = fleet.price if given is None else Fraction(given)
    if price is None:
        source = "no price of one currency for these GPUs: give the price of a GPU-hour, name a model, or add rates"
        return [Fact(name, None, "money", "unknown", UNKNOWN, source) for name in names]
    currency = fleet.currency if given is None else None
    basis = MEASURED if given is None else GIVEN
    facts = []
    for name, ratio in names.items():
        cost = money(price * Fraction(question.gpus) * HOURS_A_MONTH * Fraction(ratio))
        source = f"{float(question.gpus):g} GPUs x {HOURS_A_MONTH} h x {float(price):g} an hour"
        text = f"{Decimal(cost or 0):,.2f} {currency or ''}".strip()
        facts.append(Fact(name, cost, currency or "money", text, basis, source))
    return facts


def _today(fleet: Fleet) -> list[Fact]:
    """What the stalls that were found cost a month, by currency."""
    name = "fleet_stalls_a_month"
    if fleet.hours is None:
        return [Fact(name, None, "money", "unknown", UNKNOWN, "the fleet's ledger has nothing in this window")]
    factor = Fraction(HOURS_A_MONTH) / Fraction(fleet.hours)
    seconds = sum(row["gpu_seconds"] for row in fleet.stalls)
    found = count(len(fleet.stalls), "checkpoint stall")
    hours = float(seconds / 3600 * factor)
    unit, how = "GPU-hours", f"{found}, seen in {duration(fleet.hours * 3600)}, per month of {HOURS_A_MONTH} h"
    facts = [Fact("fleet_stall_gpu_hours_a_month", hours, unit, f"{hours:,.1f} GPU-hours", MEASURED, how)]
    unpriced = sum(row["cost"] is None for row in fleet.stalls)
    if unpriced or not fleet.stalls:
        why = f"{unpriced} of them have no price" if unpriced else "no checkpoint stall was found in this window"
        text, basis = ("unknown", UNKNOWN) if unpriced else ("none found", MEASURED)
        return [*facts, Fact(name, None, "money", text, basis, why)]
    for currency in sorted({row["currency"] for row in fleet.stalls}):
        total = sum((Fraction(r["cost"]) for r in fleet.stalls if r["currency"] == currency), Fraction(0)) * factor
        text = f"{Decimal(money(total) or 0):,.2f} {currency}"
        facts.append(Fact(name, money(total), currency, text, MEASURED, how))
    return facts
