"""Corrections by the window: what windows add up to, however they are cut, and what a closing that is killed leaves."""

from __future__ import annotations

import signal
import subprocess
import sys
from collections import Counter
from decimal import Decimal
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from gpuwatch.billing.periods.corrections.repository import Correction, Corrections
from gpuwatch.billing.periods.records import Frozen
from gpuwatch.billing.periods.repository import PeriodConflict, Periods
from gpuwatch.core.clock import Window
from gpuwatch.state import State
from tests.worlds.patience import PATIENCE_S
from tests.worlds.world import HOUR, us

pytestmark = pytest.mark.both_engines

DAY = 24 * HOUR
WEEKS = {"2026-W45": 0, "2026-W46": 7, "2026-W47": 14}
"""Closed weeks, by the day on which they begin."""
OPEN = 30 * DAY
"""An instant behind all of them."""
HEAD = """
import os, signal
from gpuwatch.billing.periods import repository as periods
from gpuwatch.state import State
def killed(*_):
    os.kill(os.getpid(), signal.SIGKILL)
periods.record = killed
with State.open({path!r}) as state:
    periods.Periods(state).close({name!r}, periods.Frozen([], [], [], {{}}, {{}}), "ada", {at})
"""


def frozen(state: State) -> Frozen:
    return Frozen([], [], [], Periods(state).versions(), {})


def line(amount: int, team: str = "red") -> dict[str, Any]:
    """So many dollars and GPU-seconds more."""
    number = f"{amount}"
    return {"words": {"team": team}, "currency": "USD", "gpu_seconds": number, "cost_exact": number, "cost": number}


def post(state: State, name: str, at_s: int, *lines: dict[str, Any]) -> int:
    """Posts lines of the closing in force, behind those that are there."""
    corrections = Corrections(state)
    newest = max((one.id for one in corrections.of(name)), default=0)
    found = Periods(state).get(name)
    assert found is not None
    return corrections.post(name, found.number, newest, lines, "late data", us(at_s))


def total(lines: list[Correction]) -> Decimal:
    return sum((one.cost_exact or Decimal(0) for one in lines), Decimal(0))


def window(first_s: int, last_s: int) -> Window:
    return Window(us(first_s), us(last_s))


def test_a_month_is_not_closed_beside_a_week_of_it_nor_the_other_way_round() -> None:
    state = State.open("sqlite://")
    Periods(state).close("2026-W47", frozen(state), "ada", us(OPEN))
    with pytest.raises(PeriodConflict, match="overlaps 2026-W47"):
        Periods(state).close("2026-11", frozen(state), "ada", us(OPEN))
    Periods(state).reopen("2026-W47", "ada", "by months from now on", us(OPEN))
    Periods(state).close("2026-11", frozen(state), "ada", us(OPEN))
    with pytest.raises(PeriodConflict, match="overlaps 2026-11"):
        Periods(state).close("2026-W47", frozen(state), "ada", us(OPEN))


def test_a_later_closing_has_the_corrections_that_are_billed_in_it() -> None:
    """They are part of its content and of its hash; what comes behind it is posted to the first instant that is open."""
    state = State.open("sqlite://")
    Periods(state).close("2026-W45", frozen(state), "ada", us(8 * DAY))
    post(state, "2026-W45", 8 * DAY, line(3))
    first = Periods(state).close("2026-W46", frozen(state), "ada", us(15 * DAY))
    Periods(state).reopen("2026-W46", "ada", "again", us(15 * DAY))
    second = Periods(state).close("2026-W46", frozen(state), "ada", us(15 * DAY + 1))
    found = Periods(state).get("2026-W46")
    assert found is not None
    (entry,) = Periods(state).rows(found)["corrections"]
    post(state, "2026-W45", 9 * DAY, line(5))

    assert first.digest == second.digest
    assert ("2026-W45", 1, "3", "2026-11-10T00:00:00Z") == tuple(
        entry[name] for name in ("corrects", "closing", "cost_exact", "posted")
    )
    assert [us(8 * DAY), us(14 * DAY)] == [one.posted_us for one in Corrections(state).of("2026-W45")]


def test_what_is_taken_back_belongs_to_whom_it_was_posted() -> None:
    """A period that is opened again corrects nothing any more, whatever was billed where."""
    state = State.open("sqlite://")
    Periods(state).close("2026-W45", frozen(state), "ada", us(8 * DAY))
    post(state, "2026-W45", 8 * DAY, line(3), line(4, "blue"))
    post(state, "2026-W45", 16 * DAY, line(-1))
    Periods(state).reopen("2026-W45", "ada", "rates", us(20 * DAY))
    sums: Counter[str | None] = Counter()
    for one in Corrections(state).of("2026-W45"):
        sums[one.words["team"]] += int(one.cost_exact or 0)

    assert {"red": 0, "blue": 0} == dict(sums)


@pytest.mark.sqlite_only
@settings(max_examples=30, deadline=None)
@given(
    st.lists(
        st.tuples(st.sampled_from(sorted(WEEKS)), st.integers(0, 30 * 24), st.integers(-9, 9), st.booleans()),
        max_size=8,
    ),
    st.sets(st.integers(-10, 31 * 24), max_size=5),
)
def test_windows_add_up_however_they_are_cut(steps: list[tuple[str, int, int, bool]], cuts: set[int]) -> None:
    """Weeks that are corrected, opened and closed again in any order: parts of a span tell what the span tells, a span that
    holds all of it tells nothing, and a closed week without its own lines is what was frozen.
    """
    state = State.open("sqlite://")
    periods, corrections = Periods(state), Corrections(state)
    for name, first in WEEKS.items():
        periods.close(name, frozen(state), "ada", us((first + 8) * DAY))
    for name, hour, amount, again in steps:
        at_s = max(hour * HOUR, (WEEKS[name] + 7) * DAY)
        if again:
            periods.reopen(name, "ada", "again", us(at_s))
            periods.close(name, frozen(state), "ada", us(at_s + 1))
        elif amount:
            post(state, name, at_s, line(amount))
    edges = [-10 * DAY, *sorted(cut * HOUR for cut in cuts), 40 * DAY]
    parts = [corrections.billed(window(a, b)) for a, b in pairwise(edges) if a < b]

    assert total(corrections.billed(window(edges[0], edges[-1]))) == sum(map(total, parts))
    assert [] == corrections.billed(window(edges[0], edges[-1]))
    for name, first in WEEKS.items():
        span = window(first * DAY, (first + 7) * DAY)
        own = total(corrections.of(name))
        assert total(corrections.billed(span)) == total(corrections.billed(span, name)) - own
        assert not any(one.period == name for one in corrections.billed(span, name))
    for span in (window(a, b) for a, b in pairwise(edges) if a < b):
        assert all(span.start_us <= one.posted_us < span.end_us for one in corrections.billed(span))


def test_a_closing_that_is_killed_has_closed_nothing(tmp_path: Path) -> None:
    """SIGKILL between the frozen rows and their audit row: neither is there, and it can be closed."""
    State.open(tmp_path).close()
    script = HEAD.format(path=str(tmp_path), name="2026-W45", at=us(8 * DAY))
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, check=False, timeout=PATIENCE_S)
    with State.open(tmp_path) as state:
        left = (Periods(state).names(), [entry.what for entry in state.audit()])
        closed = Periods(state).close("2026-W45", frozen(state), "ada", us(8 * DAY))

    assert (-signal.SIGKILL, ([], [])) == (done.returncode, left)
    assert 1 == closed.number
