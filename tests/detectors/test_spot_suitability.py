"""Jobs that spot capacity would make cheaper: jobs that would lose by it, or may not go there, first."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from decimal import Decimal
from pathlib import Path

import pytest

from gpuwatch.detectors.spot_suitability import SPOT_SUITABILITY
from gpuwatch.rates.card import Rate
from gpuwatch.rates.repository import replace_rates
from tests.worlds.detectors import H100, PAGE_HEADINGS, WORK, World, page_headings, page_rows, printed_thresholds, us
from tests.worlds.subjects import findings_of, hour_by_hour

RULE = "spot-suitability"
DAY = 24 * 60
HALF_HOURLY = {"gpuwatch.io/checkpoint-minutes": "30"}

Scene = Callable[[World, str], object]


def rate(pricing: str, price: str, pool: str | None = None) -> Rate:
    return Rate(H100, pricing, Decimal(price), us(-DAY), None, None, pool, None)


RENTED = (rate("on_demand", "2"), rate("spot", "0.8", "elsewhere"))


def priced(world: World, *rates: Rate) -> World:
    replace_rates(world.state, list(rates), "test", "test", 0)
    return world


def job(world: World, name: str, labels: dict[str, str] | None, *, hours: float = 30, gpus: int = 2) -> World:
    """A job on some GPUs of a node of its own."""
    names = [f"{name}-{number}" for number in range(gpus)]
    for gpu in names:
        world.gpu(gpu, (60 * hours, WORK), node=name, step_s=1200)
    return world.job(name, names, 0, 60 * hours, node=name, labels=labels)


def wide(world: World, name: str) -> World:
    """A job on one GPU of each of twenty nodes."""
    for number in range(20):
        gpu, node = f"{name}-{number}", f"{name}-n{number}"
        world.gpu(gpu, (50 * 60, WORK), node=node, step_s=1200)
        world.job(name, [gpu], 0, 50 * 60, node=node, labels=HALF_HOURLY)
    return world


MUST_NOT_FIRE: dict[str, Scene] = {
    "no word on checkpoints": lambda w, n: job(w, n, None),
    "short runs without checkpoints": lambda w, n: job(w, n, None, hours=4, gpus=8),
    "a checkpoint a day": lambda w, n: job(w, n, {"gpuwatch.io/checkpoint-minutes": "1440"}),
    "lost work of more than half of what spot is cheaper": lambda w, n: job(
        w, n, {"gpuwatch.io/checkpoint-minutes": "1000"}
    ),
    "a service": lambda w, n: job(w, n, HALF_HOURLY | {"gpuwatch.io/workload-class": "serving"}),
    "a pod of a Deployment": lambda w, n: job(w, n, HALF_HOURLY | {"pod-template-hash": "6b7f"}),
    "a job with a deadline": lambda w, n: job(w, n, HALF_HOURLY | {"gpuwatch.io/deadline": "2026-01-09"}),
    "a job whose data may not leave": lambda w, n: job(w, n, HALF_HOURLY | {"gpuwatch.io/spot": "never"}),
    "an exempt label": lambda w, n: job(w, n, HALF_HOURLY | {"gpuwatch.io/exempt-until": "2026-12-31"}),
    "a job of 20 GPU-hours": lambda w, n: job(w, n, HALF_HOURLY, hours=10),
    "a job of twenty nodes: one is taken away every hour, and 42 % of the time would be lost": wide,
}


@pytest.fixture(scope="module")
def quiet(tmp_path_factory: pytest.TempPathFactory) -> World:
    """All cases that must not fire, side by side."""
    world = priced(World(tmp_path_factory.mktemp("quiet")), *RENTED)
    for number, scene in enumerate(MUST_NOT_FIRE.values()):
        scene(world, f"q{number}")
    job(world, "clock", HALF_HOURLY, hours=50)
    world.analyze(2 * DAY + 120, detectors=[RULE])
    return world


@pytest.mark.parametrize("case", MUST_NOT_FIRE)
def test_says_nothing_of(quiet: World, case: str) -> None:
    name = f"q{list(MUST_NOT_FIRE).index(case)}"

    assert name not in [one.subject for one in findings_of(quiet, RULE)]


PAID = {
    "hours that are owned": (rate("owned", "2"), rate("spot", "0.8", "elsewhere")),
    "hours that are spot already": (replace(rate("spot", "0.8"), assume_spot=True),),
    "no price of spot capacity": (rate("on_demand", "2"),),
    "no prices at all": (),
}


def test_where_nothing_can_be_saved_it_says_nothing(tmp_path: Path) -> None:
    """The same job at one price list after the other. At the last one it could save: new prices alone are enough to look again."""
    world = job(World(tmp_path), "a", HALF_HOURLY, hours=50)
    for case, rates in PAID.items():
        report = priced(world, *rates).analyze(2 * DAY + 120, detectors=[RULE])

        assert ([], []) == (report.failed_rules, findings_of(world, RULE)), case

    priced(world, *RENTED).analyze(2 * DAY + 120, detectors=[RULE])
    assert ["a"] == [one.subject for one in findings_of(world, RULE)]


def test_a_job_with_checkpoints_that_is_rented_by_the_hour(quiet: World) -> None:
    (one,) = findings_of(quiet, RULE)

    assert ("job", "clock", "info", "open", 0) == (one.kind, one.subject, one.severity, one.state, one.wasted_s)
    # Two GPUs for the 48 hours before the last midnight. A checkpoint each half hour and 0.05 interruptions an hour lose
    # 0.05 x (1/4 + 1/6) of the time; spot costs 0.40 of what it costs now, 1.25 % longer: it saves 59.5 %.
    listed = ("gpu_hours", "spot_price_ratio", "lost_ratio", "checkpoint_minutes", "interruptions_an_hour")
    assert (96, 0.4, 0.020833, 30, 0.05) == tuple(round(one.evidence[name], 6) for name in listed)
    assert ("192.00", "114.24", "USD") == tuple(one.evidence[name] for name in ("cost", "saving", "currency"))
    assert "Spot saves $114 of $192 " in SPOT_SUITABILITY.summary(one.evidence)


@pytest.mark.slow
def test_one_job_keeps_one_key_over_its_runs(tmp_path: Path) -> None:
    def played(name: str) -> World:
        world = priced(World(tmp_path / name), *RENTED).gpu("a", (5 * DAY, WORK), step_s=1200)
        for day in range(5):
            start, end = DAY * day, DAY * day + 20 * 60
            world.job("nightly", ["a"], start, end, run_key=f"r{day}", labels=HALF_HOURLY)
        return world

    at_once = played("whole")
    at_once.analyze(5 * DAY, detectors=[RULE])

    expected = [(one.key, one.started) for one in findings_of(at_once, RULE)]
    assert [0] == [started for _, started in expected]
    assert expected == [(one.key, one.started) for one in hour_by_hour(played("hours"), 5 * 24, RULE, step=30)]


def test_the_page_says_what_the_rule_does() -> None:
    page = Path(__file__).parents[2] / "docs" / "detectors" / f"{RULE}.md"

    assert printed_thresholds(SPOT_SUITABILITY) == page_rows(page)
    assert list(PAGE_HEADINGS) == page_headings(page)
