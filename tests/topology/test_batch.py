"""Placements of many gangs at once are those of each alone."""

from __future__ import annotations

from itertools import combinations
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from gpuwatch.store.database import Store
from gpuwatch.topology.batch import Gang, farther
from gpuwatch.topology.derive import graph
from gpuwatch.topology.grade import grade_placement
from gpuwatch.topology.seats import LADDER

CLUSTER, MODEL, OTHER = "c1", "NVIDIA H100 80GB HBM3", "NVIDIA L40S"
NODES, GPUS, END = 4, 4, 100
NAMES = [f"n{node}/{gpu}" for node in range(NODES) for gpu in range(GPUS)]

Span = tuple[int, int, int, bool]
"""A GPU held from, until, and whether which GPU it was is only estimated."""


DARK = 3
"""A node with unknown links."""


def fill(store: Store, table: str, rows: list[dict[str, Any]]) -> None:
    """Rows of a table by hand, NULL where a value is missing."""
    if rows:
        with store.view("made_row", pa.Table.from_pylist(rows)):
            store.sql(f"insert into {table} by name select * from made_row")


@pytest.fixture(scope="module")
def store() -> Store:
    """Four nodes of two NVLink pairs each, two below each leaf switch; the links of the last one are unknown."""
    store = Store.open(None, threads=1)
    devices, edges, pairs = [], [], []
    for number, name in enumerate(NAMES):
        node, gpu = number // GPUS, number % GPUS
        whole = {"cluster": CLUSTER, "gpu": name, "gi": -1, "node": f"n{node}", "model": MODEL, "pool": "p"}
        devices.append(whole | {"device_id": number, "parent_id": number, "measured": True})
        for kind, parent, speed in (
            ("nvlink", f"n{node}/nvlink-{gpu // 2}", 370.8),
            ("numa", f"n{node}/numa-{gpu // 2}", 33.0),
            ("node", f"n{node}", 22.0),
        ):
            row = {"cluster": CLUSTER, "child": name, "child_kind": "gpu", "parent": parent, "parent_kind": kind}
            if node != DARK or kind == "node":
                edges.append(row | {"bandwidth_gb_per_s": speed})
    for node in range(NODES):
        for kind, parent, speed in (("leaf", f"l{node // 2}", 10.0), ("spine", "s", 5.0)):
            row = {"cluster": CLUSTER, "child": f"n{node}", "child_kind": "node", "parent": parent, "parent_kind": kind}
            edges.append(row | {"bandwidth_gb_per_s": speed})
        for a, b in combinations(range(GPUS), 2) if node != DARK else ():
            near = a // 2 == b // 2
            row = {"cluster": CLUSTER, "node": f"n{node}", "a": f"n{node}/{a}", "b": f"n{node}/{b}"}
            pairs.append(row | {"level": "NV18" if near else "SYS", "bandwidth_gb_per_s": 370.8 if near else 22.0})
    fill(store, "device", devices)
    fill(store, "topology_edge", edges)
    fill(store, "topology_pair", pairs)
    return store


def segments(spans: list[Span]) -> list[dict[str, Any]]:
    """Every microsecond of every GPU, held by the spans that do not clash with earlier ones, free else."""
    rows = []
    for gpu in range(len(NAMES)):
        taken: list[tuple[int, int, bool]] = []
        for _, start, end, guessed in (span for span in spans if span[0] == gpu):
            if all(end <= a or start >= b for a, b, _ in taken):
                taken.append((start, end, guessed))
        at = 0
        whole = {"cluster": CLUSTER, "device_id": gpu, "share_num": 1, "share_den": 1, "conflict": False}
        for start, end, guessed in [*sorted(taken), (END, END, False)]:
            if at < start:
                rows.append(
                    whole
                    | {
                        "start_us": at,
                        "end_us": start,
                        "run_id": None,
                        "free_bucket": "schedulable",
                        "estimated": False,
                    }
                )
            if start < end:
                rows.append(
                    whole | {"start_us": start, "end_us": end, "run_id": 7, "free_bucket": None, "estimated": guessed}
                )
            at = end
    return rows


def free_at(rows: list[dict[str, Any]], at: int) -> list[str]:
    """As sql/topology/placement/alike.sql says it."""
    there = [row for row in rows if row["start_us"] <= at < row["end_us"]]
    guessed = {row["device_id"] // GPUS for row in there if row["estimated"]}
    return [
        NAMES[row["device_id"]] for row in there if row["run_id"] is None and row["device_id"] // GPUS not in guessed
    ]


times = st.integers(0, END)
spans = st.lists(
    st.builds(lambda g, a, b, e: (g, min(a, b), max(a, b) + 1, e), st.integers(0, 15), times, times, st.booleans()),
    max_size=40,
)
gangs = st.lists(
    st.tuples(st.integers(0, END - 1), st.sets(st.integers(0, 15), min_size=2, max_size=6)), min_size=1, max_size=8
)


@settings(max_examples=60, deadline=None)
@given(spans=spans, asked=gangs)
def test_all_at_once_are_as_one_by_one(store: Store, spans: list[Span], asked: list[tuple[int, set[int]]]) -> None:
    rows = segments(spans)
    store.sql("delete from segment")
    fill(store, "segment", rows)
    wanted = [
        Gang(number, at, MODEL, ("p",), tuple(NAMES[gpu] for gpu in sorted(gpus)))
        for number, (at, gpus) in enumerate(asked)
    ]
    around = graph(store, CLUSTER, 0)
    found = {run_id: placement for run_id, (placement, _) in farther(store, CLUSTER, wanted).items()}

    for gang in wanted:
        alone = grade_placement(around, gang.gpus, free_at(rows, gang.at_us), NAMES, MODEL)
        assert alone.best is not None
        nearer = LADDER.index(alone.best.where.kind) < LADDER.index(alone.where.kind)
        assert nearer == (gang.run_id in found)
        if nearer:  # to the last digit and name
            assert alone == found[gang.run_id]


@pytest.mark.parametrize(
    "gang",
    [
        pytest.param(Gang(1, 50, OTHER, ("p",), ("n0/0", "n1/0")), id="GPUs of another model are no place"),
        pytest.param(Gang(1, 50, MODEL, ("q",), ("n0/0", "n1/0")), id="nor are those of another pool"),
    ],
)
def test_only_mates_count(store: Store, gang: Gang) -> None:
    store.sql("delete from segment")
    fill(store, "segment", segments([]))

    assert {} == farther(store, CLUSTER, [gang])


def test_gpus_without_a_place_are_left_out(store: Store) -> None:
    assert {} == farther(store, CLUSTER, [Gang(1, 50, MODEL, ("p",), ("n0/0", "unknown"))])
