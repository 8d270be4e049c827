"""Idle GPUs that were held while others waited: what counts, and what must not."""

from __future__ import annotations

from decimal import Decimal
from typing import Any

import pyarrow as pa
import pytest

from gpuwatch.analysis.pipeline import analyze
from gpuwatch.core.clock import Window
from gpuwatch.core.model import PENDING, Records
from gpuwatch.policy.ownership import TeamRule
from gpuwatch.policy.repository import replace_team_rules
from gpuwatch.rates.card import Rate
from gpuwatch.rates.repository import replace_rates
from gpuwatch.report.week.idle_while_waiting import idle_while_waiting, rounded
from gpuwatch.state import State
from tests.worlds.templates import computed_once
from tests.worlds.world import CLUSTER, HOUR, IDLE, SETTINGS, T0_US, Gpu, World, claim, minutes, node, samples, us

HELD = Gpu("GPU-held", "n1")
DAY = Window(T0_US, T0_US + 24 * HOUR * 1_000_000)


@computed_once
def held(submit: bool) -> tuple[World, State]:
    """Bees hold one GPU idle for 4 hours."""
    made, state = World(), State.open("sqlite://")
    replace_rates(state, (Rate("*", "on_demand", Decimal(2), 0),), "test", "test", 0)
    replace_team_rules(state, [TeamRule("user", "bob", "bees"), TeamRule("user", "ann", "ants")], "test", "test", 0)
    asked = us(0) if submit else None
    made.add(
        node("n1", {"": 1}),
        samples(HELD, minutes(0, 4 * HOUR), IDLE),
        claim("bee-1", 0, 4 * HOUR, "n1", user_name="bob", submit_us=asked),
    )
    analyze(made.store, state, SETTINGS, now_us=us(30 * HOUR))
    return made, state


def world(*waiting: dict[str, Any], submit: bool = True) -> tuple[World, State]:
    """The same with waiting requests."""
    made, state = held(submit)
    if waiting:
        with made.store.transaction():
            made.store.append(Records("pending", pa.Table.from_pylist(list(waiting), schema=PENDING)))
        analyze(made.store, state, SETTINGS, now_us=us(30 * HOUR))
    return made, state


def request(start: float, seen: float, **words: Any) -> dict[str, Any]:
    """Ann's request for one GPU, submitted at `start` and still waiting at `seen`."""
    base = {"cluster": CLUSTER, "scheduler": "slurm", "job_id": "ant-9", "device_count": 1, "user_name": "ann"}
    return {**base, "submit_us": us(start), "evidence_us": us(seen), "reason": "Resources", **words}


def asked(made: World, state: State) -> dict[str, tuple[Decimal, Any, int]] | None:
    """(GPU-seconds, costs, requests) by team."""
    found = idle_while_waiting(made.store, state, DAY, None)
    if found is None:
        return None
    by_name = {team: rounded(waited) for team, waited in found.items()}
    return {team: (w.amount.gpu_seconds, w.amount.costs, w.requests) for team, w in by_name.items()}


def test_where_nobody_says_what_waited_it_is_not_known() -> None:
    """Not none."""
    assert asked(*world(submit=False)) is None


@pytest.mark.parametrize(
    "waiting",
    [
        pytest.param([], id="nobody waited"),
        pytest.param([request(0, 4 * HOUR, user_name="bob")], id="one of the same team"),
        pytest.param([request(0, 4 * HOUR, device_count=2)], id="one that asks for more devices than are idle"),
        pytest.param([request(0, 4 * HOUR, gpu_type="a100")], id="one that asks for another model"),
        pytest.param([request(0, 4 * HOUR, profile="1g.10gb")], id="one that asks for a slice"),
        pytest.param([request(0, 4 * HOUR, cluster="c2")], id="one of another cluster"),
        pytest.param([request(0, 4 * HOUR, reason="Dependency")], id="one that waits for another job"),
        pytest.param([request(5 * HOUR, 6 * HOUR)], id="one that came when nothing was idle any more"),
    ],
)
def test_what_does_not_count(waiting: list[dict[str, Any]]) -> None:
    """Known, and nothing."""
    assert {} == asked(*world(*waiting))


def test_an_hour_and_a_half_that_a_request_waited() -> None:
    """From 1:30 to 3:00, at $2: 5400 s, $3."""
    found = asked(*world(request(1.5 * HOUR, 3 * HOUR, gpu_type="h100")))

    assert {"bees": (Decimal("5400.000000"), (("USD", Decimal("3.00")),), 1)} == found


def test_two_that_wait_at_once_count_once() -> None:
    """One from 1:00 to 2:00, one from 1:30 to 2:30: an hour and a half."""
    found = asked(
        *world(request(HOUR, 2 * HOUR), request(1.5 * HOUR, 2.5 * HOUR, job_id="ant-10")),
    )

    assert {"bees": (Decimal("5400.000000"), (("USD", Decimal("3.00")),), 2)} == found


@computed_once
def two_nodes() -> tuple[World, State]:
    """Bees hold two GPUs idle on each of two nodes for 2 hours."""
    made, state = World(), State.open("sqlite://")
    replace_rates(state, (Rate("*", "on_demand", Decimal(2), 0),), "test", "test", 0)
    replace_team_rules(state, [TeamRule("user", "bob", "bees"), TeamRule("user", "ann", "ants")], "test", "test", 0)
    gpus = [Gpu(f"GPU-{name}{index}", name, index) for name in ("n1", "n2") for index in range(2)]
    made.add(
        *(node(name, {"": 2}) for name in ("n1", "n2")),
        *(row for gpu in gpus for row in samples(gpu, minutes(0, 2 * HOUR), IDLE)),
        *(claim(f"bee-{name}", 0, 2 * HOUR, name, 2, user_name="bob", submit_us=us(0)) for name in ("n1", "n2")),
    )
    analyze(made.store, state, SETTINGS, now_us=us(30 * HOUR))
    return made, state


@pytest.mark.parametrize(
    ("words", "fits"),
    [
        pytest.param({"device_count": 4, "node_count": 1}, False, id="four GPUs of one node"),
        pytest.param({"device_count": 4}, False, id="four GPUs, and nobody says of how many nodes"),
        pytest.param({"device_count": 4, "node_count": 2}, True, id="two GPUs of each of two nodes"),
        pytest.param({"device_count": 4, "node_count": 4}, False, id="four Slurm nodes"),
        pytest.param({"device_count": 4, "node_count": 4, "scheduler": "kubernetes"}, True, id="four pods"),
        pytest.param({"device_count": 3, "node_count": 3, "scheduler": "kubernetes"}, True, id="three pods"),
        pytest.param({"device_count": 2, "node_count": 1}, True, id="two GPUs of one node"),
    ],
)
def test_a_request_counts_where_the_idle_gpus_of_each_node_would_do(words: dict[str, Any], fits: bool) -> None:
    made, state = two_nodes()
    with made.store.transaction():
        row = request(0, 2 * HOUR, **words)
        made.store.append(Records("pending", pa.Table.from_pylist([row], schema=PENDING)))
    analyze(made.store, state, SETTINGS, now_us=us(30 * HOUR))

    assert ({"bees": (Decimal("28800.000000"), (("USD", Decimal("16.00")),), 1)} if fits else {}) == asked(made, state)
