"""Pods whose end no source reports: held up to the last sign of life, in records or in samples."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

import pytest

from gpuwatch.billing import chargeback
from gpuwatch.billing.charge_id import Asked
from gpuwatch.billing.explain.charge import explain
from gpuwatch.core.clock import Window, rfc3339
from gpuwatch.jobs.listing import job
from gpuwatch.state import State
from tests.ledger.test_attribution import FREE, A, of, seen
from tests.worlds.town import case
from tests.worlds.world import HOUR, Gpu, Seconds, World, minutes, pod, samples, us


def lost(uid: str, start: Seconds, alive: Seconds, gone: Seconds, name: str = "p-0", **words: Any) -> dict[str, Any]:
    """A pod that was last known alive at `alive` and found gone at `gone`."""
    labels = json.dumps({"app": "x", "gpuwatch.io/ended-by": rfc3339(us(gone))})
    return pod(name, uid, start, alive, labels=labels, **words)


def labelled(end: Seconds, name: str = "p-0") -> list[Any]:
    """A GPU that is sampled for an hour, with the pod's name up to `end`."""
    return [seen(A, 0, float(end), pod=name, namespace="lab"), seen(A, float(end), HOUR)]


@pytest.mark.parametrize(
    ("records", "expected"),
    [
        pytest.param([lost("u1", 0, 600, 3000)], 1800, id="up to the last sample with its name"),
        pytest.param([lost("u1", 0, 600, 1200)], 1200, id="never past the time it was found gone"),
        pytest.param([lost("u1", 0, 2400, 3000)], 2400, id="never before the last sign of life"),
        pytest.param([pod("p-0", "u1", 0, 600)], 600, id="an end that is known stays"),
        pytest.param([lost("u1", 0, 600, 3000), pod("p-0", "u1", 0, 900)], 900, id="an event has dated the end since"),
    ],
)
@case
def test_a_pod_whose_deletion_was_missed_ends(
    world: World, records: list[dict[str, Any]], expected: int
) -> Iterator[None]:
    world.add(*labelled(1800), *records)
    yield

    assert [(0, expected, "u1"), (expected, 3600, FREE)] == of(world, "GPU-a")


@case
def test_without_samples_that_name_it_it_ends_at_the_last_sign_of_life(world: World) -> Iterator[None]:
    world.add(*labelled(1800, "other"), lost("u1", 0, 600, 3000, gpus="GPU-a"))
    yield

    assert (0, 600, "u1") in of(world, "GPU-a")


def test_the_next_pod_with_the_name_keeps_its_time() -> None:
    """The samples name the pod, not its UID, and a StatefulSet uses the name again."""
    world = World().add(*labelled(HOUR), lost("u1", 0, 600, 3000), pod("p-0", "u2", 1500, HOUR)).book()

    assert [(0, 1500, "u1"), (1500, 3600, "u2")] == of(world, "GPU-a")


def test_an_estimated_end_is_marked() -> None:
    """In the run, in the job, and in the lines of a charge that end with it."""
    known = pod("p-1", "u2", 0, 1200, node="n2", gpus="GPU-b")
    other = samples(Gpu("GPU-b", "n2"), minutes(0, HOUR))
    world = World().add(*labelled(1800), lost("u1", 0, 600, 3000), other, known).book()
    runs = dict(world.store.sql("select run_key, coalesce(end_estimated, false) from run"))
    with State.open("sqlite://") as state:
        chargeback.price_all(world.store, state)
        lines = explain(world.store, state, Asked(Window(us(0), us(HOUR)), (), "allocated"))["items"]
    found = [job(world.store, None, None, f"lab/{name}") or {} for name in ("p-0", "p-1")]

    assert {"u1": True, "u2": False} == runs
    assert [True, False] == [one["runs"][0]["end_estimated"] for one in found]
    assert {"lab/p-0": True, "lab/p-1": False} == {line["job"]: line["end_estimated"] for line in lines}
