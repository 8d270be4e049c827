"""What was avoidable over time, beside the period before."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import timedelta

from dash.development.base_component import Component

from gpuwatch.dashboards.client import Row
from gpuwatch.dashboards.components import figures, formats, ledger_math, parts
from gpuwatch.dashboards.shell import states
from gpuwatch.dashboards.shell.query import Query
from gpuwatch.dashboards.shell.theme import BUCKETS, Scheme
from gpuwatch.dashboards.waste import morning

PER = {"hour": "an hour", "day": "a day"}


@dataclass(frozen=True)
class Series:
    """What was avoidable in each step, by bucket: money, or GPU-hours. None: no data."""

    starts: list[str]
    parts: dict[str, list[float | None]]

    @property
    def whole(self) -> list[float]:
        """All buckets together."""
        return [sum(series[at] or 0.0 for series in self.parts.values()) for at in range(len(self.starts))]


def series(steps: Row | None, currency: str | None) -> Series:
    """The avoidable part of stepped ledger rows. Without a currency: GPU-hours."""
    cells: dict[str, dict[str, float]] = {}
    for row in (steps or {}).get("items") or []:
        start, whole = row.get("start"), formats.number(row.get("gpu_seconds"))
        lost, cost = formats.number(row.get("avoidable_gpu_seconds")), formats.number(row.get("cost"))
        if not isinstance(start, str) or not whole or lost is None:
            continue
        cell = cells.setdefault(start, {})
        size = float(lost) / 3600 if currency is None else float(cost * lost / whole) if cost is not None else None
        if lost and size is not None:
            name = str(row.get("bucket"))
            cell[name] = cell.get(name, 0.0) + size
    starts = sorted(cells)[-ledger_math.MAX_STEPS :]
    names = [bucket.name for bucket in BUCKETS if any(bucket.name in cells[start] for start in starts)]
    return Series(starts, {name: [cells[start].get(name) for start in starts] for name in names})


def card(answer: Row, query: Query, scheme: Scheme) -> Component:
    """Columns of what was avoidable by bucket; a line for the period before, step by step."""
    found = morning.waste(answer["now"])
    currency = found.currency if found else None
    steps: Row = answer.get("steps") or {}
    now = series(steps, currency)
    unit, length = ("hour", 3600) if steps.get("step") == "1h" else ("day", 86400)
    if not any(now.whole) and formats.number(answer["now"].get("measured_ratio")) == 0:
        return parts.card(
            "Avoidable over time", states.advice("Not measured: what was held in this window has no measurements.")
        )
    if not now.starts or found is None or not any(now.whole):
        return parts.card("Avoidable over time", states.advice("Nothing avoidable was recorded in this window."))
    comparable = morning.change(answer) is not None
    past = series(answer.get("steps_before") if comparable else None, currency)
    window = ledger_math.window_of(answer)
    step = timedelta(seconds=length)
    cut = ledger_math.cut_by(window, now.starts, step)
    before = aligned(now, past, answer)
    figure = figures.waste(now.starts, now.parts, before, length, scheme, formats.sign_of(currency), cut)
    more = morning.change_words(morning.change(answer), query)
    covered = formats.number(answer["now"].get("covered_seconds"))
    each = found.words(found.lost * length / covered) if covered else ""
    title = f"{each} was avoidable {PER[unit]} on average" if each else f"Avoidable by {unit}"
    notes = [f"One column per {unit}, {formats.zone_word()}"]
    if cut:
        notes.append("pale columns are partial")
    if any(value is not None for value in before):
        notes.append("dashes: the period before")
    title = f"{title}, {more}" if more and each else title
    return parts.card(
        title,
        parts.legend(now.parts),
        parts.graph(figure, figures.LOW),
        note="; ".join(notes),
    )


def aligned(now: Series, past: Series, answer: Row) -> list[float | None]:
    """The earlier period's amount for each step of this one, by the time since the start of each period."""
    shift = answer.get("shift_seconds")
    if not isinstance(shift, int):
        return [None] * len(now.starts)
    sizes: dict[object, float] = dict(zip(map(formats.moment, past.starts), past.whole, strict=True))
    length = timedelta(seconds=shift)
    return [sizes.get(at - length) if (at := formats.moment(start)) else None for start in now.starts]
