"""Data without metrics that simply end: findings reach up to the last record, and what holds there is open."""

from __future__ import annotations

from typing import Any

import pyarrow as pa
import pytest

from gpuwatch.analysis.pipeline import analyze
from gpuwatch.core.model import PENDING, Records
from gpuwatch.core.queue_model import WORKLOAD
from gpuwatch.findings.scope import known_until
from gpuwatch.state import State
from gpuwatch.store.database import Store
from tests.worlds.world import CLUSTER, HOUR, SETTINGS, Gpu, World, claim, minutes, node, pod, samples, us

END = 3 * HOUR
PLACE = {"cluster": CLUSTER, "namespace": "lab", "job_id": "lab/train"}
SCHEMAS = {"pending": PENDING, "workload": WORKLOAD}


def add(world: World, table: str, **words: Any) -> None:
    row = dict.fromkeys(SCHEMAS[table].names) | PLACE | words
    world.store.append(Records(table, pa.Table.from_pylist([row], schema=SCHEMAS[table])))


def gang(ends: float | None) -> World:
    """Two of three pods run; the third has no place from minute 5 on, up to `ends` or the end of the data."""
    world = World().add(
        *(node("n1", {"": 4}, at=at) for at in (0, END)),
        *(pod(f"train-{n}", f"u{n}", 300, None, evidence=END) | {"job_id": "lab/train"} for n in range(2)),
    )
    add(
        world,
        "workload",
        scheduler="volcano",
        kind="PodGroup",
        uid="g",
        name="train",
        min_count=3,
        pod_count=3,
        submit_us=us(300),
        observed_us=us(END),
        state="admitted",
    )
    asks = {"scheduler": "kubernetes", "submit_us": us(300), "device_count": 1, "node_count": 1}
    for at in range(HOUR, END + 1, HOUR):
        if ends is None or at < ends:
            add(world, "pending", **asks, evidence_us=us(at), reason="Unschedulable")
    if ends is not None:
        add(world, "pending", **asks, evidence_us=us(ends), reason="NoLongerWaits")
    return world


def findings(world: World, detector: str, now: float = END + 90 * HOUR) -> list[tuple[Any, ...]]:
    state = State.open("sqlite://")
    analyze(world.store, state, SETTINGS, now_us=us(now))
    query = "select state, started_us, last_seen_us, ended_us from finding where detector = $d order by started_us"
    found = world.store.sql(query, d=detector)
    state.close()
    return found


def test_a_wait_that_ended_before_the_data_is_resolved() -> None:
    until_us = us(2 * HOUR)

    assert [("resolved", us(300), until_us, until_us)] == findings(gang(2 * HOUR), "gang-partial")


@pytest.mark.parametrize("now", [END, END + 600, END + 90 * HOUR])
def test_what_holds_in_the_last_record_is_open_as_of_that_record(now: float) -> None:
    assert [("open", us(300), us(END), None)] == findings(gang(None), "gang-partial", now)


def test_a_second_analysis_days_later_leaves_it_open() -> None:
    world = gang(None)
    before = findings(world, "gang-partial")

    assert before == findings(world, "gang-partial", END + 200 * HOUR)


@pytest.mark.parametrize(
    ("records", "expected"),
    [
        pytest.param([], 9 * HOUR, id="nothing is known: the end of the window"),
        pytest.param([claim("1", 0, HOUR, evidence=HOUR)], HOUR, id="the last word of a scheduler"),
        pytest.param([claim("1", 0, None, evidence=12 * HOUR)], 9 * HOUR, id="never past the window"),
        pytest.param(
            [claim("1", 0, 2 * HOUR, evidence=2 * HOUR), *samples(Gpu(), minutes(0, HOUR))],
            HOUR - 30,
            id="the last sample, where there are any",
        ),
    ],
)
def test_how_far_a_cluster_is_known(records: list[Any], expected: float) -> None:
    world = World().add(*records)
    store: Store = world.book().store if records else world.store

    assert us(expected) == known_until(store, CLUSTER, us(9 * HOUR))
