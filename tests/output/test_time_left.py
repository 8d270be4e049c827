"""The time left of a long command only falls, and is not zero while work goes on."""

from __future__ import annotations

import pytest

from gpuwatch.output import progress
from gpuwatch.output.time_left import Phases, TimeLeft


def shown(steps: list[tuple[float, float]]) -> list[float | None]:
    """The seconds left at (seconds since the begin, part done)."""
    at = [0.0]
    left = TimeLeft(lambda: at[0])
    found = []
    for at[0], part in steps:
        seconds = left.seconds(part)
        found.append(seconds)
    return found


@pytest.mark.parametrize(
    ("steps", "expected"),
    [
        pytest.param([(5, 0.0), (9, 0.01)], [None, None], id="too little is done to say"),
        pytest.param([(10, 0.1), (20, 0.2), (50, 0.5), (100, 1.0)], [90, 80, 50, 0], id="even work"),
        pytest.param([(50, 0.5), (100, 0.0)], [50, None], id="other work begins"),
    ],
)
def test_what_is_left(steps: list[tuple[float, float]], expected: list[float | None]) -> None:
    found = shown(steps)

    assert [None if one is None else pytest.approx(one, rel=0.15) for one in expected] == found


def test_it_never_grows_and_never_stands_at_zero_before_the_end() -> None:
    """Fast at first, then ten times slower, as where sorting follows reading."""
    steps = [(second, 0.5 * second / 30) for second in range(1, 31)]
    steps += [(30 + second, 0.5 + 0.5 * second / 300) for second in range(1, 300)]
    found = [one for one in shown(steps) if one is not None]

    assert found == sorted(found, reverse=True)
    assert all(one > 0 for one in found)
    assert [0.0] == shown([(10, 0.5), (20, 1.0)])[1:]


def test_phases_are_one_whole_that_never_falls() -> None:
    phases = Phases({"read": 0.5, "hours": 0.3, "judged": 0.2})
    parts = [
        phases.part(*one)
        for one in (("read", 1, 2), ("read", 2, 2), ("hours", 0, 1), ("judged", 1, 2), ("hours", 0, 1))
    ]

    assert [0.25, 0.5, 0.5, 0.9, 0.9] == [round(part, 6) for part in parts]


def test_a_line_of_work_in_phases_has_its_part_and_the_time_left(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    at = [100.0]
    monkeypatch.setattr(progress.time, "monotonic", lambda: at[0])
    with progress.progress("scan", lambda done, total, what: done / total) as step:
        at[0] = 140.0
        step(400, 1000, "samples")

    assert ["scan: samples (40 % done, 1 min left)"] == capsys.readouterr().err.splitlines()
