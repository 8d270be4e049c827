"""Checkpoints: hand-computed values, the interval that loses least, and what a fleet's failures and stalls say."""

from __future__ import annotations

import json
from decimal import Decimal
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from gpuwatch.advisor.checkpointing import (
    INTERRUPTIONS_PER_GPU_HOUR,
    bytes_per_parameter,
    daly,
    expected_loss,
    needed_bytes_per_second,
    plan,
    stall_ratio,
    young,
)
from gpuwatch.billing.chargeback import price_all
from gpuwatch.cli import run
from gpuwatch.core.clock import Window
from gpuwatch.core.errors import UsageError
from gpuwatch.core.words import duration, size
from gpuwatch.jobs.checkpoint_inputs import Question, question_of
from gpuwatch.jobs.checkpoints import check
from gpuwatch.rates.card import Rate
from gpuwatch.rates.repository import replace_rates
from tests.billing.test_chargeback import priced
from tests.worlds.detectors import IDLE, WORK
from tests.worlds.detectors import World as Detectors
from tests.worlds.world import BUSY, HOUR, Gpu, World, claim, minutes, node, samples, us

MINUTE = 60.0
Facts = dict[str, dict[str, Any]]
calm = settings(max_examples=50, deadline=None, suppress_health_check=[HealthCheck.too_slow])


def facts(found: dict[str, Any]) -> Facts:
    return {item["name"]: item for item in found["items"]}


# Formulas.

SIZES = [
    ("bf16", "adamw", 14),  # 2 weights, 4 master, 4 + 4 moments: ZeRO's 16 less 2 of gradients
    ("fp32", "adamw", 12),
    ("fp8", "adamw", 13),
    ("bf16", "adamw-8bit", 8),
    ("bf16", "sgd-momentum", 10),
    ("bf16", "none", 2),
]


@pytest.mark.parametrize(("precision", "optimizer", "expected"), SIZES)
def test_a_checkpoint_has_weights_master_weights_and_optimizer_state(
    precision: str, optimizer: str, expected: float
) -> None:
    assert expected == bytes_per_parameter(precision, optimizer)


DALY = [(24 * 60, 117.0), (6 * 60, 57.0), (15, 9.1)]
"""Daly (2006), figures 3 to 5: (mean time to failure, best interval) in minutes, for dumps of 5 minutes."""


@pytest.mark.parametrize(("mttf", "minutes_best"), DALY)
def test_the_interval_is_that_of_daly_s_figures(mttf: float, minutes_best: float) -> None:
    found = daly(5 * MINUTE, mttf * MINUTE) / MINUTE
    assert minutes_best == (round(found, 1) if minutes_best < 10 else round(found))


def test_young_s_interval_is_the_square_root_of_twice_the_product() -> None:
    assert 120 * MINUTE == young(5 * MINUTE, 24 * 60 * MINUTE)  # sqrt(2 x 5 x 1440) = 120
    assert 50.0 == daly(100.0, 50.0)  # a stall of twice the time to failure: save all the time


@calm
@given(st.floats(1, 3600), st.floats(1.5, 4.5), st.floats(0, 3600))
def test_no_interval_of_a_sweep_loses_less_than_daly_s(stall: float, power: float, restart: float) -> None:
    mttf = stall * 10**power
    best = expected_loss(stall, daly(stall, mttf), mttf, restart)
    sweep = [expected_loss(stall, interval, mttf, restart) for interval in np.geomspace(stall / 20, mttf * 3, 400)]
    assert best <= min(sweep) * 1.002  # Daly's series is within 0.2 % of the exact optimum for stalls below M / 30


@calm
@given(st.floats(1, 1e4), st.floats(1, 1e6), st.floats(1e3, 1e8))
def test_a_loss_is_a_share_and_not_below_the_stalls(stall: float, interval: float, mttf: float) -> None:
    lost = expected_loss(stall, interval, mttf)
    assert stall_ratio(stall, interval) * 0.9999 <= lost <= 1


def test_a_job_that_fails_before_it_can_save_makes_no_progress() -> None:
    assert 1.0 == expected_loss(3600, 3600, 1.0)


@calm
@given(st.floats(1e6, 1e15), st.floats(0.001, 0.5), st.floats(60, 1e5))
def test_the_needed_bandwidth_gives_the_chosen_share(whole: float, share: float, interval: float) -> None:
    given_interval = needed_bytes_per_second(whole, share, interval, 1e6)
    assert stall_ratio(whole / given_interval, interval) == pytest.approx(share)
    best = needed_bytes_per_second(whole, share, None, 1e6)
    assert stall_ratio(whole / best, young(whole / best, 1e6)) == pytest.approx(share)


def test_a_write_in_the_background_must_end_before_the_next() -> None:
    assert 10.0 == needed_bytes_per_second(6000, 0.05, 600, 1e6, background=True)


def test_a_plan_takes_the_interval_that_it_is_given() -> None:
    found = plan(60, 1e6, 0, interval=1140)
    assert (1140, 0.05) == (found.interval, found.stall_ratio)
    assert found.young == pytest.approx(10954.451)


# The check without a fleet: 70 billion parameters on 512 GPUs, 980 GB at 50 GB/s.


def test_the_check_computes_what_the_page_documents() -> None:
    answer = check(None, question_of(params="70B", gpus="512", write_gbps="50", gpu_price="2.5"), None)
    found = facts(answer)
    mttf = 54 * 24 * 16384 / 419 / 512 * 3600
    assert "70000000000" == answer["assumptions"]["params"]
    assert (980e9, 19.6) == (found["checkpoint_bytes"]["value"], found["write_seconds"]["value"])
    assert ("guess", mttf) == (found["mean_time_to_failure_seconds"]["basis"], pytest.approx(mttf))
    assert found["interval_young_seconds"]["value"] == pytest.approx((2 * 19.6 * mttf) ** 0.5)
    share = found["stall_ratio"]["value"]
    assert found["stall_cost_a_month"]["value"] == f"{512 * 730 * 2.5 * share:.2f}"
    assert ("unknown", None) == (found["fleet_stalls_a_month"]["basis"], found["fleet_stalls_a_month"]["value"])


def test_what_is_not_given_is_unknown_and_not_zero() -> None:
    found = facts(check(None, Question(Decimal("7e9"), Decimal(8)), None))
    unknown = {name for name, fact in found.items() if fact["basis"] == "unknown"}
    assert {
        "write_seconds", "interval_young_seconds", "interval_daly_seconds", "stall_ratio", "lost_ratio",
        "fleet_stalls_a_month",
    } == unknown  # fmt: skip
    assert {None} == {found[name]["value"] for name in unknown}
    assert found["needed_write_gbps"]["value"] > 0


REFUSED = [
    ({"params": "many"}, "params 'many': not a number such as 70e9"),
    ({"params": "0"}, "params 0: give a number above 0"),
    ({"params": "NaN"}, "params 'NaN'"),
    ({"gpus": "-1"}, "gpus -1: give a number above 0"),
    ({"stall_share": "1"}, "stall_share 1: give a share between 0 and 1"),
    ({"precision": "int3"}, "precision 'int3': use fp32, bf16"),
    ({"write_gbps": "1e400"}, "write_gbps"),
]


@pytest.mark.parametrize(("more", "words"), REFUSED, ids=lambda v: str(v)[:30])
def test_a_value_that_is_none_is_named(more: dict[str, str], words: str) -> None:
    with pytest.raises(UsageError, match=words):
        question_of(**{"params": "7e9", "gpus": "8"} | more)


# A fleet.


def fleet(*states: str) -> World:
    """Runs of ten hours on one GPU each, which ended so."""
    rows: list[Any] = [node("n1", pool="p")]
    for number, state in enumerate(states):
        gpu = Gpu(f"GPU-{number}", "n1", number)
        rows += [samples(gpu, minutes(0, 10 * HOUR, 600), BUSY, job=str(number))]
        rows += [claim(str(number), 0, 10 * HOUR, state=state)]
    return World().add(*rows).book()


def asked(world: World, **more: str) -> Facts:
    priced(world, Rate("*", "owned", Decimal(2), us(-24 * HOUR)))
    window = Window(us(0), us(20 * HOUR))
    return facts(check(world.store, question_of(params="7e9", gpus="10", write_gbps="1", **more), window))


def test_the_fleet_s_own_failure_rate_counts_where_it_has_one() -> None:
    found = asked(fleet("COMPLETED", "NODE_FAIL", "FAILED", "COMPLETED"))
    rate = found["interruptions_per_million_gpu_hours"]
    assert ("measured", 25_000.0) == (rate["basis"], pytest.approx(rate["value"]))  # one in 40 GPU-hours
    assert found["mean_time_to_failure_seconds"]["value"] == pytest.approx(4 * 3600)
    assert found["stall_cost_a_month"]["source"] == "10 GPUs x 730 h x 2 an hour"
    assert ("0", 0.0) == (
        found["fleet_stalls_a_month"]["value"] or "0",
        found["fleet_stall_gpu_hours_a_month"]["value"],
    )
    assert "no checkpoint stall was found" in found["fleet_stalls_a_month"]["source"]


def test_a_fleet_without_a_failure_has_no_rate_of_zero() -> None:
    rate = asked(fleet("COMPLETED", "FAILED"))["interruptions_per_million_gpu_hours"]
    assert ("guess", INTERRUPTIONS_PER_GPU_HOUR * 1e6) == (rate["basis"], pytest.approx(rate["value"]))
    assert "none in 20 GPU-hours, so at most 1.5e+05 (95 % confidence)" in rate["source"]


def test_a_model_that_the_fleet_lacks_is_named_with_those_it_has() -> None:
    with pytest.raises(UsageError, match="model 'B200': the fleet has NVIDIA H100"):
        asked(fleet("COMPLETED"), model="B200")


def test_a_stall_that_was_found_is_priced_by_the_month(stalled: Facts) -> None:
    # Two GPUs pause for 3 of 30 minutes over 5 hours: 2 x (10 x 180 s - 1 %) = 3,240 s in 5 h, at 2 USD an hour.
    hours = stalled["fleet_stall_gpu_hours_a_month"]["value"]
    assert hours == pytest.approx(2 * (10 * 180 - 180) / 3600 / 5 * 730, rel=0.02)
    assert float(stalled["fleet_stalls_a_month"]["value"]) == pytest.approx(hours * 2, rel=0.001)


@pytest.fixture(scope="module")
def stalled(tmp_path_factory: pytest.TempPathFactory) -> Facts:
    world = Detectors(tmp_path_factory.mktemp("stalled"))
    phases = ((27, WORK), (3, IDLE)) * 10
    world.gpu("a", *phases).gpu("b", *phases).job("j", ["a", "b"], 0, 300)
    world.analyze(detectors=["checkpoint-stall"])
    state = world.state
    replace_rates(state, [Rate("*", "owned", Decimal(2), 0)], "test", "test", 1)
    price_all(world.store, state)
    (start_us, end_us) = world.store.sql("select min(start_us), max(end_us) from capacity")[0]
    return facts(check(world.store, question_of(params="7e9", gpus="2"), Window(start_us, end_us)))


# The command.


def test_the_command_needs_no_data_directory(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("GPUWATCH_DATA", raising=False)
    assert 0 == run(["checkpoint", "--params", "70e9", "--gpus", "512", "--write-gbps", "50", "--format", "json"])
    found = json.loads(capsys.readouterr().out)
    assert 980e9 == facts(found)["checkpoint_bytes"]["value"]
    assert ["no fleet data: failure rate, prices and stalls of the fleet are unknown"] == found["notes"]
    assert 3 == run(["checkpoint", "--params", "70e9", "--gpus", "512", "--data", "missing"])
    assert 2 == run(["checkpoint", "--params", "x", "--gpus", "512"])
    assert "params 'x'" in capsys.readouterr().err


# Words.


@pytest.mark.parametrize(
    ("seconds", "words"),
    [(0, "0 s"), (0.5, "0.5 s"), (59.9, "1 min"), (90, "1 min 30 s"), (5400, "1 h 30 min"), (345_600, "4 days"),
     (90_000, "1 day 1 h"), (-60, "-1 min")],
)  # fmt: skip
def test_a_duration_reads_as_a_person_says_it(seconds: float, words: str) -> None:
    assert words == duration(seconds)


@pytest.mark.parametrize(
    ("count", "words"), [(980e9, "980 GB"), (1.254e12, "1.25 TB"), (12, "12 bytes"), (999.9e9, "1 TB")]
)
def test_a_size_has_three_digits(count: float, words: str) -> None:
    assert words == size(count)
