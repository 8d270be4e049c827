"""Contention: idle time that others waited for is counted once, and only where a released GPU would have helped."""

from __future__ import annotations

from collections.abc import Iterator
from decimal import Decimal
from fractions import Fraction
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from gpuwatch.billing.chargeback import price_all
from gpuwatch.core.model import EVENT, PENDING, Records
from gpuwatch.findings import contention
from gpuwatch.policy.ownership import TeamRule
from gpuwatch.policy.repository import replace_team_rules
from gpuwatch.rates.card import Rate
from gpuwatch.rates.repository import replace_rates
from tests.worlds.detectors import CLUSTER, IDLE, WORK, World, us

NOW = us(10_000)
GRACE = Fraction(1, 60)
"""Hours of each idle run that are no waste."""


def waits(world: World, job_id: str, start: float, end: float, devices: int, **words: Any) -> None:
    """A request of user bob that was submitted at a minute and last heard of waiting at another."""
    row = dict.fromkeys(PENDING.names, None) | {
        "cluster": CLUSTER,
        "scheduler": "slurm",
        "job_id": job_id,
        "submit_us": us(start),
        "evidence_us": us(end),
        "device_count": devices,
        "user_name": "bob",
        "reason": "Resources",
        **words,
    }
    world.store.append(Records("pending", pa.Table.from_pylist([row], schema=PENDING)))


def hoards(directory: Path, *gpus: str, jobs: bool = False) -> World:
    """GPUs that one job of ada (or one each) holds idle from minute 60 to 180."""
    world = World(directory)
    for name in gpus:
        world.gpu(name, (60, WORK), (120, IDLE), (60, WORK))
    for number, name in enumerate(gpus if jobs else [gpus]):
        world.job(f"hoard-{number}", [name] if isinstance(name, str) else list(name), 0, 240)
    replace_team_rules(world.state, [TeamRule("user", "ada", "ada"), TeamRule("user", "bob", "bob")], "t", "t", 0)
    replace_rates(world.state, [Rate("H100", "owned", Decimal("2.00"), us(0))], "t", "t", 0)
    return world


def analyzed(world: World) -> World:
    """Evaluated and priced; waiting requests may be added later."""
    world.analyze(250, detectors=("idle-hoarding",))
    price_all(world.store, world.state)
    return world


@pytest.fixture(scope="module")
def worlds(tmp_path_factory: pytest.TempPathFactory) -> dict[str, World]:
    """One GPU; three and four of one job or one job each; two beside a free one. They are judged once."""
    make = tmp_path_factory.mktemp
    return {
        "one": analyzed(hoards(make("one"), "a")),
        "three": analyzed(hoards(make("three"), "a", "b", "c")),
        "apart": analyzed(hoards(make("apart"), "a", "b", "c", jobs=True)),
        "free": analyzed(hoards(make("free"), "a", "b").gpu("free", (240, IDLE))),
    }


@pytest.fixture
def world(worlds: dict[str, World], request: pytest.FixtureRequest) -> Iterator[World]:
    """One of them, which forgets what waited."""
    found = worlds[getattr(request, "param", "one")]
    yield found
    found.store.sql("delete from pending")


def contended(world: World) -> dict[str, tuple[Fraction, Fraction | None, int]]:
    """GPU-hours, cost and requests by job, of all findings."""
    jobs = dict(world.store.sql("select key, job_id from finding where detector = 'idle-hoarding'"))
    found = contention.of(world.store, world.state, list(jobs), NOW)
    return {jobs[key]: (one.gpu_hours, one.cost, one.requests) for key, one in found.items()}


@pytest.mark.parametrize(
    "words",
    [
        pytest.param({"devices": 2}, id="it asks for more than lies idle"),
        pytest.param({"gpu_type": "a100"}, id="it asks for another model"),
        pytest.param({"profile": "1g.10gb"}, id="it asks for a slice"),
        pytest.param({"user_name": "ada"}, id="it is the holder's own"),
        pytest.param({"reason": "QOSMaxGRESPerUser"}, id="it waits for quota"),
        pytest.param({"reason": "AssocGrpGRES"}, id="it waits for a limit"),
        pytest.param({"reason": "WaitingForQuota"}, id="it waits for quota of Kueue"),
        pytest.param({"reason": "NoMatchingFlavor"}, id="taints keep it away"),
        pytest.param({"reason": "Dependency"}, id="it waits for another job"),
        pytest.param({"reason": "SchedulingGated"}, id="a gate holds it"),
        pytest.param({"cluster": "c2"}, id="it waits elsewhere"),
        pytest.param({"start": 200, "end": 230}, id="it waited later"),
        pytest.param({"start": 0, "end": 60}, id="it waited before"),
    ],
)
def test_idle_time_that_nobody_could_have_used_is_not_contended(world: World, words: dict[str, Any]) -> None:
    waits(world, "9", **({"start": 60, "end": 180, "devices": 1} | words))

    assert {} == contended(world)


def test_without_requests_nothing_is_contended(world: World) -> None:
    assert {} == contended(world)


def refused(world: World, message: str) -> None:
    """The scheduler's word on a pod of job ml/train."""
    row = dict.fromkeys(EVENT.names, None) | {
        "cluster": CLUSTER,
        "event_id": "e1",
        "object_kind": "Pod",
        "namespace": "ml",
        "name": "train-0",
        "reason": "FailedScheduling",
        "message": message,
        "first_us": us(61),
        "last_us": us(170),
    }
    world.store.append(Records("event", pa.Table.from_pylist([row], schema=EVENT)))


@pytest.mark.parametrize(
    "message, wanted",
    [
        ("0/3 nodes are available: 3 node(s) had untolerated taint {team: red}.", False),
        ("0/3 nodes are available: 1 Insufficient cpu, 2 node(s) didn't match Pod's node affinity/selector.", False),
        ("0/3 nodes are available: 3 Insufficient nvidia.com/gpu.", True),
    ],
)
def test_a_pod_that_no_node_took_waits_for_what_the_scheduler_says(world: World, message: str, wanted: bool) -> None:
    words = {"scheduler": "kubernetes", "namespace": "ml", "reason": "Unschedulable"}
    waits(world, "ml/train", 60, 180, 1, **words)
    refused(world, message)

    assert wanted == bool(contended(world))
    world.store.sql("delete from event")


def test_what_waits_for_it_makes_idle_time_contended(world: World) -> None:
    """Half of two idle hours, at 2 dollars an hour."""
    waits(world, "9", 120, 180, 1, gpu_type="h100")

    assert {"hoard-0": (Fraction(1), Fraction(2), 1)} == contended(world)


@pytest.mark.parametrize("world", ["apart"], indirect=True)
def test_one_request_is_counted_once_beside_many_idle_gpus(world: World) -> None:
    """Three idle GPUs of two hours, one request of one GPU: an hour of the wait is an hour of all three together."""
    waits(world, "9", 60, 180, 1)

    found = contended(world)

    assert [Fraction(2, 3)] * 3 == [hours for hours, _, _ in found.values()]


@pytest.mark.parametrize("world", ["free"], indirect=True)
def test_what_free_gpus_could_take_is_nobodys_fault(world: World) -> None:
    """One GPU is free, and one is asked for."""
    waits(world, "9", 60, 180, 1)

    assert {} == contended(world)


@pytest.mark.parametrize("world", ["free"], indirect=True)
def test_beyond_what_is_free_it_is(world: World) -> None:
    waits(world, "9", 60, 180, 3)

    assert {"hoard-0": (4 - 2 * GRACE, 8 - 4 * GRACE, 1)} == contended(world)


def test_without_a_price_only_hours_are_reported(tmp_path: Path) -> None:
    world = hoards(tmp_path, "a")
    replace_rates(world.state, [], "t", "t", 1)
    analyzed(world)
    waits(world, "9", 60, 180, 1)

    assert {"hoard-0": (2 - GRACE, None, 1)} == contended(world)


def test_too_many_keys_are_refused(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="5000 are the most"):
        contention.of(World(tmp_path).store, None, range(5001), NOW)  # type: ignore[arg-type]


@settings(max_examples=20, deadline=None, suppress_health_check=list(HealthCheck))
@given(
    asked=st.lists(
        st.tuples(st.integers(40, 200), st.integers(1, 90), st.integers(1, 4)), min_size=0, max_size=4, unique=True
    ),
    together=st.booleans(),
)
def test_never_more_than_lay_idle_and_never_more_than_was_asked(
    worlds: dict[str, World], asked: list[tuple[int, int, int]], together: bool
) -> None:
    """Whatever waits: of three GPUs idle for two hours at most these six hours, and at most what requests waited."""
    world = worlds["three" if together else "apart"]
    world.store.sql("delete from pending")
    for number, (start, length, devices) in enumerate(asked):
        waits(world, str(number), start, start + length, devices)

    total = sum((hours for hours, _, _ in contended(world).values()), Fraction(0))

    waited = sum(Fraction(length * devices, 60) for _, length, devices in asked)
    assert 0 <= total <= min(Fraction(6), waited)
