"""GPUs that wait for checkpoints: what pauses otherwise, then what stops together at regular times."""

from __future__ import annotations

from collections.abc import Iterator
from fractions import Fraction
from pathlib import Path

import numpy as np
import pytest

from gpuwatch.advisor import periodic
from gpuwatch.core.clock import DAY_US, HOUR_US
from gpuwatch.detectors.checkpoint_stall import CHECKPOINT_STALL, prepare
from gpuwatch.rules.rule import EvaluationScope
from tests.worlds.cases import Cases, Scene
from tests.worlds.detectors import (
    CLUSTER,
    IDLE,
    PAGE_HEADINGS,
    WORK,
    Found,
    Phase,
    World,
    level,
    page_headings,
    page_rows,
    printed_thresholds,
    us,
)
from tests.worlds.subjects import hour_by_hour

RULE = "checkpoint-stall"
EVALUATION = level(0.95, 0.55, 0.2, 0.3, 400)
LOADING = level(0.2, 0.1, 0.05, 0.05, 120)
IRREGULAR = (17, 41, 26, 9, 33, 58, 12, 47, 29, 22, 36)
"""Minutes of work between pauses that follow no clock."""


def every(period: float, pause: float, times: int, paused: object = IDLE) -> tuple[Phase, ...]:
    """Work that stops for `pause` minutes of each period."""
    return ((period - pause, WORK), (pause, paused)) * times  # type: ignore[return-value]


def total(phases: tuple[Phase, ...]) -> float:
    """Minutes of phases."""
    return sum(length for length, _ in phases)


def jittered(spread: float) -> tuple[Phase, ...]:
    """Work that stops for 317 seconds of each 65 minutes, for 12.4 hours; each step is early or late by itself."""
    draw = np.random.default_rng(11)
    steps = [round(65 * (1 + draw.normal(0, spread)) - 317 / 60, 1) for _ in range(11)]
    return tuple(phase for work in steps for phase in ((work, WORK), (317 / 60, IDLE)))


def drawn(least: int, most: int) -> tuple[Phase, ...]:
    """Work that stops for five minutes at random times, for a day."""
    draw = np.random.default_rng(5)
    return tuple(phase for work in draw.integers(least, most, 30) for phase in ((float(work), WORK), (5, IDLE)))


def loading(*steps: float) -> tuple[Phase, ...]:
    """Evaluations that load for three quarters of a minute after each of `steps` minutes."""
    return tuple(phase for step in steps for phase in ((step - 1, EVALUATION), (1, LOADING)))


def alone(*phases: Phase, **job: object) -> Scene:
    """One GPU in one job."""
    return lambda w, n: w.gpu(n, *phases).job(n, [n], 0, total(phases), **job)  # type: ignore[arg-type]


EVALUATIONS = tuple(float(step) for step in np.random.default_rng(3).integers(8, 17, 80))


def reloads(seed: int) -> tuple[Phase, ...]:
    """Work that stops for three minutes after 25 to 45 minutes, for a day."""
    steps = np.random.default_rng(seed).integers(25, 46, 36)
    return tuple(phase for step in steps for phase in ((float(step), WORK), (3, IDLE)))


def gang(first: tuple[Phase, ...], second: tuple[Phase, ...]) -> Scene:
    """Two GPUs in one job."""
    return lambda w, n: w.gpu(f"{n}-0", *first).gpu(f"{n}-1", *second).job(n, [f"{n}-0", f"{n}-1"], 0, total(first))


MUST_NOT_FIRE: dict[str, Scene] = {
    "no sample at all": lambda w, n: w.job(n, 1, 0, 300, node=f"node-{n}"),
    "steady work": alone((300, WORK)),
    "idle": alone((300, IDLE)),
    "a loader that is late all the time": alone((300, level(0.35, 0.30, 0.15, 0.15, 250))),
    "five pauses of a GPU alone": alone(*every(30, 3, 5), (210, WORK)),
    "three pauses of a gang": gang((*every(30, 3, 3), (210, WORK)), (*every(30, 3, 3), (210, WORK))),
    "pauses that take 3 % of the time": alone(*every(60, 2, 6)),
    "pauses at no regular times": alone(*(phase for work in IRREGULAR for phase in ((work, WORK), (3, IDLE)))),
    "pauses at times drawn from 5 minutes to an hour and a half": alone(*drawn(5, 90)),
    "two GPUs that pause together at such times": gang(drawn(5, 90), drawn(5, 90)),
    "evaluations: the GPUs compute": alone(*every(30, 5, 10, EVALUATION)),
    "busy and less busy in turns": alone(*every(40, 20, 10, level(0.6, 0.5, 0.2, 0.2, 300))),
    "a third of the time": alone(*every(33, 11, 10)),
    "one of two GPUs pauses": gang(every(30, 4, 10), ((300, WORK),)),
    "GPUs that pause in turn": gang(every(30, 4, 10), ((15, WORK), *every(30, 4, 9), (15, WORK))),
    "served in bursts, idle between": alone(*(((22, IDLE), (8, WORK)) * 10)),
    "an evaluation that loads after 9, 8, 9, 9, 8 and 8 minutes": alone(
        (11, EVALUATION), *loading(9, 9, 8, 9, 9, 8, 8)
    ),
    "an evaluation whose parts take 8 to 16 minutes": alone(*loading(*EVALUATIONS)),
    "a gang that reads data again after 25 to 45 minutes": gang(reloads(31), reloads(31)),
    "an exempt label that has not expired": alone(*every(30, 3, 10), labels={"gpuwatch.io/exempt-until": "2026-12-31"}),
    "suspended by Slurm for others, each hour": alone(*every(61, 14, 20), suspended=20 * 14),
    "suspended in its pauses, and never told for how long": lambda w, n: (
        w.gpu(n, *every(61, 14, 10)).job(n, [n], 0, None, heard=596, state="SUSPENDED").job(n, [n], 0, None, heard=610)
    ),
    "nobody measured the pauses": alone(*every(30, 3, 10, None)),
}

MUST_FIRE: dict[str, Scene] = {
    "every half hour": alone(*every(30, 3, 10)),
    "every ten minutes": alone(*every(10, 1, 24)),
    "every two hours": alone(*every(120, 8, 6)),
    "a gang": gang(every(30, 3, 10), every(30, 3, 10)),
    "a minute early or late": alone(
        *(phase for early in (0, 1, -1, 0, 1, 0, -1, 1, 0, -1) for phase in ((27 + early, WORK), (3, IDLE)))
    ),
    "317 seconds of 65 minutes, early or late by 1.5 %": alone(*jittered(0.015)),
    "317 seconds of 65 minutes, early or late by 4 %": alone(*jittered(0.04)),
    "suspended once": alone(*every(30, 3, 10), (20, IDLE), (30, WORK), suspended=10),
    "then no more": alone(*every(30, 3, 8), (240, WORK)),
}


CASES = Cases(MUST_NOT_FIRE, MUST_FIRE)


@pytest.fixture(scope="module")
def fleet(tmp_path_factory: pytest.TempPathFactory) -> Iterator[World]:
    """The world of all cases."""
    with CASES.analyzed(tmp_path_factory.mktemp("fleet"), detectors=[RULE]) as world:
        yield world


def found(world: World, case: str) -> list[Found]:
    """Findings of a case."""
    return world.findings(RULE, CASES.name(case))


@pytest.mark.parametrize("case", MUST_NOT_FIRE)
def test_it_does_not_accuse(fleet: World, case: str) -> None:
    """A false accusation costs more than a miss."""
    assert [] == found(fleet, case)


@pytest.mark.parametrize(
    ("case", "period", "duty"),
    [
        ("every half hour", 30, 0.1),
        ("every ten minutes", 10, 0.1),
        ("every two hours", 120, 8 / 120),
        ("a gang", 30, 0.1),
        ("suspended once", 30, 0.1),
        ("a minute early or late", 30, 0.1),
    ],
)
def test_it_finds_the_period(fleet: World, case: str, period: int, duty: float) -> None:
    """Minutes from pause to pause, and the part of all time that they take."""
    (finding,) = found(fleet, case)

    assert period == pytest.approx(finding.evidence["period_minutes"], abs=1)
    assert duty == pytest.approx(finding.evidence["duty_ratio"], rel=0.25)


def test_it_claims_what_is_beyond_one_percent(fleet: World) -> None:
    """A gang is judged from the hour of its fourth pause on, a GPU alone from that of its sixth. Both claim all ten pauses of
    three minutes, less 1 % of the five hours after the warm-up: the first pauses made the pattern known.
    """
    (gang_of_two,), (alone_there,) = found(fleet, "a gang"), found(fleet, "every half hour")
    lost = 10 * 180 - 4 * 36 - Fraction(357, 10)  # the first sample reaches half a minute back

    assert (87, 300, 2 * lost) == (gang_of_two.started, gang_of_two.ended, gang_of_two.wasted_s)
    assert (147, 300, lost) == (alone_there.started, alone_there.ended, alone_there.wasted_s)
    assert gang_of_two.wasted_s <= fleet.booked_s("gap", job=gang_of_two.job)


@pytest.mark.parametrize("spread", ["1.5", "4"])
def test_it_claims_all_pauses_that_come_early_or_late(fleet: World, spread: str) -> None:
    """Eleven pauses of 317 seconds; up to 1 % of each of twelve hours is not claimed, and nothing after the last full hour."""
    (one,) = found(fleet, f"317 seconds of 65 minutes, early or late by {spread} %")

    assert 0.8 * 11 * 317 <= one.wasted_s <= 11 * 317
    assert 65 == pytest.approx(one.evidence["period_minutes"], abs=3)


def test_hour_by_hour_it_claims_the_same(fleet: World, tmp_path: Path) -> None:
    """The pauses before the pattern was known are claimed once."""
    world = World(tmp_path)
    case = "317 seconds of 65 minutes, early or late by 1.5 %"
    MUST_FIRE[case](world, CASES.name(case))
    (one,) = [f for f in hour_by_hour(world, 13, RULE, step=3) if f.state == "resolved"]

    assert found(fleet, case)[0].wasted_s == one.wasted_s
    world.store.close()


def test_both_devices_of_a_gang_are_named(fleet: World) -> None:
    """All of it stands still."""
    (both,) = found(fleet, "a gang")

    assert 2 == len(both.devices)


def test_it_ends_with_the_pauses(fleet: World) -> None:
    """An hour and a half of work after the last pause: the pattern is over."""
    (finding,) = found(fleet, "then no more")

    assert ("resolved", 147, 240) == (finding.state, finding.started, finding.ended)


def test_it_says_so_in_words(fleet: World) -> None:
    """One sentence, and how grave it is."""
    (finding,) = found(fleet, "a gang")

    assert CHECKPOINT_STALL.summary(finding.evidence).startswith("2 devices stop together every 30 min, ")
    assert CHECKPOINT_STALL.severity is not None
    assert ("medium", "high") == (
        CHECKPOINT_STALL.severity({"duty_ratio": 0.09}, 1),
        CHECKPOINT_STALL.severity({"duty_ratio": 0.1}, 1),
    )


# The period, without a fleet ------------------------------------------------------------------------------------------

ASKED = {
    "irregular_ratio": 0.3,
    "chance_max": 0.01,
    "period_min": 5,
    "period_max": 360,
    "score_min": 0.6,
    "score_few_min": 0.7,
    "height_min": 0.15,
    "baseline_max": 0.3,
    "on_time_min": 0.75,
    "depth_min": 0.8,
}


def series(period: int, pause: int, minutes: int, depth: float = 1.0) -> np.ndarray:
    """Gaps by the minute."""
    return np.where(np.arange(minutes) % period >= period - pause, depth, 0.03)


def searched(*windows: np.ndarray, pauses_min: int = 4, **other: float) -> periodic.Patterns:
    """The patterns of windows of any lengths, searched together."""
    lengths = np.array([len(window) for window in windows])
    gap = np.full((len(windows), lengths.max()), np.nan)
    for row, window in enumerate(windows):
        gap[row, : len(window)] = window
    return periodic.find(
        gap, lengths, np.full(len(windows), pauses_min), np.full(len(windows), 2 * pauses_min), **(ASKED | other)
    )


PERIODS = (5, 7, 15, 45, 90, 240, 360)


def test_the_shortest_period_is_reported_not_its_multiples() -> None:
    """From five minutes to six hours, over a day and a quarter."""
    found = searched(*(series(period, max(period // 15, 1), 1800) for period in PERIODS))

    assert PERIODS == tuple(found.period)


def test_a_short_dip_of_every_fifth_minute_is_seen() -> None:
    """Fifteen seconds of five minutes, as a one-minute mean shows them."""
    found = searched(series(5, 1, 240, 0.28))

    assert (5, 0.05) == (found.period[0], round(found.excess[0], 3))


def test_windows_of_other_lengths_beside_it_change_nothing() -> None:
    """What a window is told does not depend on those it is searched with."""
    windows = [series(30, 3, 300), series(12, 1, 700), np.full(100, 0.02), series(200, 12, 1440)]
    together, alone = searched(*windows), [searched(window) for window in windows]

    assert [0, 1, 3] == list(together.row)
    for place, row in enumerate(together.row):
        own, minutes = alone[row], np.flatnonzero(together.minutes[place])
        assert (own.period[0], own.pauses[0], own.last[0]) == (
            together.period[place],
            together.pauses[place],
            together.last[place],
        )
        assert (own.score[0], own.excess[0]) == pytest.approx((together.score[place], together.excess[place]))
        assert list(minutes) == list(np.flatnonzero(own.minutes[0]))


def test_noise_has_no_period() -> None:
    """Pauses drawn at random, a day of them, fifty times: at most one passes for regular."""
    draw = np.random.default_rng(7)
    found = searched(*(np.where(draw.random(1440) < 0.1, 0.9, 0.02) for _ in range(50)))

    assert len(found.row) <= 1


def irregular(seed: int, least: float, most: float) -> np.ndarray:
    """A day of steps between `least` and `most` minutes, with a short pause at the end of each."""
    draw, seconds, at = np.random.default_rng(seed), np.full(DAY_US // 1_000_000, 0.03), 0.0
    while at < 1440:
        at += draw.uniform(least, most)
        seconds[int(at * 60) : int((at + least / 10) * 60)] = 1.0
    return seconds.reshape(-1, 60).mean(axis=1)


@pytest.mark.parametrize(("least", "most"), [(4, 8), (6, 12), (8, 16), (20, 40), (43, 87), (80, 160)])
def test_steps_that_vary_by_a_third_look_regular_by_chance_in_two_jobs_of_fifty_at_most(least: int, most: int) -> None:
    """Fifty jobs, each asked after every second hour of a day."""
    days = [irregular(seed, least, most) for seed in range(50)]
    found = searched(*(day[: 120 * hours] for day in days for hours in range(1, 13)))

    assert len({row // 12 for row in found.row}) <= 2


def early_or_late(seed: int, period: int, hours: int, spread: float) -> np.ndarray:
    """Steps of a period with a jitter of `spread`, each with a pause of a tenth of it."""
    draw, seconds, at = np.random.default_rng(seed), np.full(hours * 3600, 0.03), 0.0
    while (at := at + period * 60 * (1 + spread * draw.standard_normal())) < hours * 3600 - 600:
        seconds[int(at) : int(at + period * 6)] = 1.0
    return seconds.reshape(-1, 60).mean(axis=1)


@pytest.mark.parametrize(("period", "hours"), [(30, 3), (60, 6)])
def test_five_pauses_that_vary_by_two_percent_are_found_in_three_jobs_of_four(period: int, hours: int) -> None:
    """Short jobs with an ordinary jitter."""
    found = searched(*(early_or_late(seed, period, hours, 0.02) for seed in range(40)))

    assert len(found.row) >= 30


@pytest.mark.parametrize(("period", "hours"), [(6, 3), (9, 3), (15, 4), (30, 6), (65, 12)])
def test_steps_that_vary_by_four_percent_are_found_in_almost_every_job(period: int, hours: int) -> None:
    """Fifty jobs of as many hours."""
    days = []
    for seed in range(50):
        draw = np.random.default_rng(seed)
        gap = np.full(60 * hours, 0.03)
        starts = np.cumsum(period * (1 + 0.04 * draw.standard_normal(60 * hours)))
        for start in starts[starts < 60 * hours - 1].astype(int):
            gap[start : start + max(period // 12, 1)] = 1.0
        days.append(gap)

    assert len(searched(*days).row) >= 46


def test_a_few_pauses_that_are_almost_on_time_are_chance() -> None:
    """An evaluation that loads now and then: six times in an hour, unless any chance is accepted."""
    hour = np.full(65, 0.24)
    for start, half in ((16, 0.41), (25, 0.42), (34, 0.76), (43, 0.76), (54, 0.76), (63, 0.41)):
        hour[[start, start + 1]] = half, 0.41

    assert 0 == len(searched(hour, pauses_min=3).row)
    assert [9] == list(searched(hour, pauses_min=3, chance_max=1.0).period)


def test_pauses_that_come_ever_sooner_have_no_period() -> None:
    """No lag at which the pauses are like themselves at all."""
    gap = np.full(200, 0.02)
    gap[[20, 100, 150, 180]] = 1.0

    assert 0 == len(searched(gap).row)


def test_nothing_known_has_no_pattern() -> None:
    """All minutes unknown, or no window at all."""
    assert 0 == len(searched(np.full(600, np.nan)).row)
    assert 0 == len(periodic.find(np.empty((0, 10)), *[np.empty(0, int)] * 3, **ASKED).row)


def test_a_long_look_tells_what_its_hours_tell(tmp_path: Path) -> None:
    """Two days and a half, read day by day with what is needed of the day before, and hour by hour."""
    world = World(tmp_path)
    for name, period, pause in (("000", 120, 8), ("001", 30, 3)):
        phases = every(period, pause, 60 * 60 // period)
        gang(phases, phases)(world, name)
    alone((400, WORK), *every(90, 6, 30))(world, "002")
    world.analyze(detectors=[RULE])
    end = us(60 * 60)

    def prepared(since_us: int, until_us: int) -> list[tuple[object, ...]]:
        world.store.run("views/job_chain", cluster=CLUSTER, since_us=since_us, until_us=until_us)
        thresholds = CHECKPOINT_STALL.parameters
        prepare(
            world.store,
            EvaluationScope(
                CLUSTER, since_us, until_us, since_us - DAY_US, end, end, thresholds, world.settings, world.state
            ),
        )
        return world.store.sql(
            "select h.chain, h.hour_us, period_minutes, pauses::int, round(duty_ratio, 9), list(minute order by minute)"
            " from checkpoint_hour h left join checkpoint_minute m using (chain, hour_us) group by all"
        )

    hours = [row for since_us in range(us(0), end, HOUR_US) for row in prepared(since_us, since_us + HOUR_US)]
    assert len(hours) > 100
    assert sorted(hours, key=str) == sorted(prepared(us(0), end), key=str)
    world.store.close()


def test_the_page_is_true(checkout: Path) -> None:
    """Every threshold and default of the module stands on the page, and nothing else."""
    page = checkout / "docs/detectors/checkpoint-stall.md"

    assert printed_thresholds(CHECKPOINT_STALL) == page_rows(page)
    assert list(PAGE_HEADINGS) == page_headings(page)
