"""Nodes that the scheduler lists before their GPUs are measured: a scan says which time it leaves out."""

from __future__ import annotations

from fractions import Fraction

import pytest

from gpuwatch.core.clock import HOUR_US, Window
from gpuwatch.scan.facts import _counted_late
from gpuwatch.store.database import Store

WINDOW = Window(100 * HOUR_US, 200 * HOUR_US)
Node = tuple[str, int | None, int, int]
"""A node: its name, the hour in which it booted, the first hour in which it counts, and its GPUs."""


def late(*nodes: Node, capacity: int = 1000) -> list[str]:
    """What a scan says of nodes, beside so many GPU-hours that count."""
    with Store.open(None) as store:
        device = 0
        for name, booted, counted, gpus in nodes:
            store.sql(
                "insert into node (cluster, scheduler, node, created_us) values ('c', 'slurm', $name, $us)",
                name=name,
                us=None if booted is None else booted * HOUR_US,
            )
            for _ in range(gpus):
                device += 1
                store.sql(
                    "insert into device (device_id, cluster, gpu, gi, node) values ($id, 'c', $gpu, -1, $name)",
                    id=device,
                    gpu=f"GPU-{device}",
                    name=name,
                )
                store.sql(
                    "insert into segment (cluster, device_id, start_us, end_us) values ('c', $id, $start, $end)",
                    id=device,
                    start=counted * HOUR_US,
                    end=200 * HOUR_US,
                )
        return [one["what"] for one in _counted_late(store, WINDOW, Fraction(capacity))]


FIRST: Node = ("n0", 0, 100, 1)
"""The cluster's first evidence is of the window's first hour."""


@pytest.mark.parametrize(
    "nodes",
    [
        pytest.param([FIRST], id="it counts from the beginning"),
        pytest.param([FIRST, ("n1", 150, 151, 8)], id="it booted an hour before"),
        pytest.param([FIRST, ("n1", None, 150, 8)], id="nobody says since when it is there"),
        pytest.param([("n1", 0, 150, 8)], id="the cluster has no earlier evidence"),
        pytest.param([FIRST, ("n1", 0, 105, 1)], id="five of a thousand GPU-hours"),
    ],
)
def test_nothing_is_said_where_nothing_much_is_left_out(nodes: list[Node]) -> None:
    assert [] == late(*nodes)


def test_the_time_left_out_is_named() -> None:
    """Within the window: 8 GPUs for 40 hours, and 4 for the whole of it."""
    assert [
        (
            "2 nodes are counted only from the first sample or job on (the last at 1970-01-11T10:00:00Z): the 720 GPU-hours "
            "that the scheduler lists before that are not in the cost."
        )
    ] == late(FIRST, ("n1", 110, 150, 8), ("n2", 0, 250, 4))
