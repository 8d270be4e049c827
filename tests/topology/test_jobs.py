"""The placement of jobs in the store: what was held and free at the start, on the topology of that instant."""

from __future__ import annotations

import json
from collections.abc import Iterator
from fractions import Fraction
from itertools import combinations
from typing import Any

import pyarrow as pa
import pytest

from gpuwatch.core.model import LINK, Records
from gpuwatch.jobs.listing import job
from gpuwatch.topology import derive as topology_derive
from gpuwatch.topology.jobs import with_cost
from tests.worlds.world import BUSY, CLUSTER, HOUR, Gpu, World, claim, minutes, node, pod, samples, us

TALKING = BUSY | {
    "nvlink_tx_bytes_per_s": 1e10,
    "nvlink_rx_bytes_per_s": 1e10,
    "pcie_tx_bytes_per_s": 1e9,
    "pcie_rx_bytes_per_s": 1e9,
}
SILENT = TALKING | dict.fromkeys([name for name in TALKING if name.endswith("per_s")], 1e3)


def matrix(host: str, gpus: int, at: int | None = None, level: str = "NV18") -> list[dict[str, Any]]:
    """Links of a node whose GPUs all reach each other alike."""
    row = {"cluster": CLUSTER, "observed_us": None if at is None else us(at), "node": host, "detail": json.dumps({})}
    own = [row | {"a": f"GPU{n}", "b": f"GPU{n}", "level": "X"} for n in range(gpus)]
    return own + [row | {"a": f"GPU{a}", "b": f"GPU{b}", "level": level} for a, b in combinations(range(gpus), 2)]


def gpu(host: str, index: int) -> Gpu:
    return Gpu(f"GPU-{host}-{index}", host, index)


def held(job_id: str, start: int, end: int | None, host: str, *numbers: int, **words: Any) -> dict[str, Any]:
    """A claim on GPUs of a node by UUID."""
    names = ",".join(gpu(host, n).uuid for n in numbers)
    return claim(job_id, start, end, host, len(numbers), gpus=names, **words)


def made(
    *claims: Any, dark: bool = False, leaf: bool = True, fields: dict[str, float] = TALKING, late: Any = ()
) -> World:
    """Three nodes of four GPUs, each one NVLink domain under one leaf switch, measured for two hours."""
    world = World()
    readings = [samples(gpu(host, n), minutes(0, 2 * HOUR), fields) for host in ("n1", "n2", "n3") for n in range(4)]
    world.add(*readings, *claims)
    links = [] if dark else [row for host in ("n1", "n2", "n3") for row in matrix(host, 4)]
    links += late
    if not dark and leaf:
        row = {"cluster": CLUSTER, "observed_us": None, "level": "SWITCH", "detail": json.dumps({"plugin": "tree"})}
        links += [row | {"node": host, "a": "l1", "b": host} for host in ("n1", "n2", "n3")]
    if links:
        world.store.append(Records("link", pa.Table.from_pylist(links, schema=LINK)))
    world.book()
    topology_derive.derive(world.store, CLUSTER)
    return world


def placed(world: World, job_id: str = "1", teams: list[str] | None = None) -> dict[str, Any]:
    found = job(world.store, None, CLUSTER, job_id, teams)
    assert found is not None
    assert found["placement_grade"] == (found["placement"] or {}).get("grade")
    placement: dict[str, Any] = found["placement"]
    return placement


SPREAD = (held("1", 0, 2 * HOUR, "n1", 0, 1), held("1", 0, 2 * HOUR, "n2", 0, 1))
OTHERS = (held("7", 0, HOUR, "n3", 0), held("8", 0, HOUR, "n1", 2), held("9", 0, HOUR, "n2", 2))
"""Jobs that leave three GPUs of every node to job 1, and are over an hour later."""

LATE = (
    *(held("1", HOUR, 2 * HOUR, host, 0, 1) for host in ("n1", "n2")),
    *(held(host, 0, 2 * HOUR, host, 2) for host in ("n1", "n2")),
)
"""Job 1 begins after an hour; n1 and n2 have no room for it."""


@pytest.mark.parametrize(
    ("rows", "words", "expected"),
    [
        pytest.param([held("1", 0, HOUR, "n1", 0)], {}, (None, "a single GPU uses no links"), id="one GPU"),
        pytest.param([claim("1", 0, HOUR, "n1", 2)], {}, (None, "is estimated, not known"), id="estimated devices"),
        pytest.param(
            SPREAD, {"dark": True}, ("B", "was there at"), id="all links are unknown: one node instead of two"
        ),
        pytest.param([held("1", 0, HOUR, "n1", 0, 1)], {}, ("A", "nothing nearer was free"), id="one NVLink domain"),
        pytest.param([*SPREAD, *OTHERS], {}, ("A", "nothing nearer was free"), id="others held a GPU of every node"),
        pytest.param(
            [*SPREAD, *OTHERS],
            {"leaf": False},
            (None, "the network between its nodes is not known"),
            id="over an unknown network",
        ),
        pytest.param(
            [*SPREAD, *OTHERS[1:], node("n3", state="drained", at=-HOUR)],
            {},
            ("A", "nothing nearer was free"),
            id="a drained node was no place",
        ),
        pytest.param(
            [*SPREAD, *OTHERS[1:], claim("7", 0, HOUR, "n3", 1)],
            {},
            ("A", "nothing nearer was free"),
            id="which GPUs of a node were free is estimated",
        ),
        pytest.param(
            [*SPREAD, *OTHERS[1:]],
            {},
            ("D", "with 4 free GPUs was there at 00:00 UTC"),
            id="but for them it had been free",
        ),
        pytest.param(SPREAD, {}, ("D", "with 4 free GPUs was there at 00:00 UTC"), id="a whole domain was free"),
        pytest.param(
            [*LATE, held("7", HOUR, 2 * HOUR, "n3", 0)],
            {},
            ("A", "nothing nearer was free"),
            id="a GPU that others got in the same instant was not free",
        ),
        pytest.param(
            [*LATE, held("7", 0, HOUR, "n3", 0)],
            {},
            ("D", "with 4 free GPUs was there at 01:00 UTC"),
            id="a GPU that others left in that instant was free",
        ),
    ],
)
def test_grades(rows: list[Any], words: dict[str, Any], expected: tuple[str | None, str]) -> None:
    found = placed(made(*rows, **words))

    assert expected[0] == found["grade"]
    assert expected[1] in found["why"]
    assert (expected[0] is None) == found["why"].startswith("Not graded")


def test_slices_have_no_grade() -> None:
    readings = [samples(Gpu("GPU-mig", "n4", 0, gi, "1g.10gb"), minutes(0, HOUR), BUSY) for gi in (3, 4)]
    owned = [pod("a", f"uid-{gi}", 0, HOUR, "n4", gpus=f"GPU-mig/GI-{gi}", profile="1g.10gb") for gi in (3, 4)]
    world = World().add(*readings, *owned).book()
    topology_derive.derive(world.store, CLUSTER)
    found = placed(world, "lab/a")

    assert (None, "Not graded: MIG slices and fractions of a GPU do not communicate over links.") == (
        found["grade"],
        found["why"],
    )


@pytest.fixture(scope="module")
def spread() -> Iterator[World]:
    """Job 1 on two GPUs of n1 and two of n2, everything else free."""
    world = made(*SPREAD, leaf=False)
    yield world
    world.store.close()


def test_what_it_spans_and_what_was_there(spread: World) -> None:
    found = placed(spread)

    assert {"nvlink_domains": 2, "pcie_switches": None, "sockets": None, "nodes": 2, "leaves": None} == found["crossed"]
    assert ("network", None, 50.0) == (found["kind"], found["name"], found["gb_per_s"])
    assert [{"level": "unknown", "share": 0.6667}, {"level": "NV18", "share": 0.3333}] == found["levels"]
    assert ("nvlink", "n1/nvlink-0", 4) == tuple(found["best"][name] for name in ("kind", "name", "free_gpus"))
    assert 1 == found["best"]["crossed"]["nodes"]
    assert None is found["mean_gb_per_s"]  # the pairs over the network are not known
    assert (7.416, 0.1569, 0.4159) == tuple(
        round(found["slowdown"][name], 4) for name in ("bandwidth_ratio", "lost_ratio_low", "lost_ratio_high")
    )
    assert ["place of n1 in the network", "place of n2 in the network"] == [row["what"] for row in found["missing"]]


def test_team_readers_do_not_see_what_was_free(spread: World) -> None:
    found = placed(spread, teams=["__unallocated__"])

    assert [None] * 3 == [found[name] for name in ("grade", "best", "slowdown")]
    assert found["why"].startswith("Not graded: what was free at its start depends on other teams")
    assert 2 == found["crossed"]["nodes"]


def test_quiet_links_lose_nothing() -> None:
    found = placed(made(*SPREAD, fields=SILENT))

    assert ("D", True, None) == (found["grade"], found["traffic"]["quiet"], found["slowdown"])


def test_links_that_nobody_measured_are_missing() -> None:
    found = placed(made(*SPREAD, fields=BUSY))

    assert (None, None) == (found["traffic"]["quiet"], found["slowdown"])
    assert "DCGM_FI_PROF_NVLINK_TX_BYTES" in found["missing"][-1]["fix"]


def test_of_a_requeued_job_the_newest_start_counts() -> None:
    first, second = {"run_key": "1:0"}, {"run_key": "1:1"}
    found = placed(
        made(
            held("1", 0, HOUR, "n1", 0, 1, **first),
            held("1", 0, HOUR, "n2", 0, 1, **first),
            held("1", HOUR, 2 * HOUR, "n1", 0, 1, 2, 3, **second),
        )
    )

    assert ("A", "2026-11-02T01:00:00Z", 4) == (found["grade"], found["at"], found["gpus"])


def test_of_pods_that_begin_soon_after_each_other_the_whole_set_counts() -> None:
    pods = [pod("w", f"u{n}", n * 300, HOUR, host, gpus=gpu(host, 0).uuid) for n, host in enumerate(("n1", "n2"))]
    found = placed(made(*pods), "lab/w")

    assert ("D", "2026-11-02T00:05:00Z", 2) == (found["grade"], found["at"], found["gpus"])


def test_pods_that_began_at_different_times_are_no_gang() -> None:
    pods = [pod("w", f"u{n}", n * 1200, 2 * HOUR, host, gpus=gpu(host, 0).uuid) for n, host in enumerate(("n1", "n2"))]

    assert (
        "Not graded: its pods started at different times, so it may not be a gang."
        == placed(made(*pods), "lab/w")["why"]
    )


def test_the_topology_of_its_start_decides() -> None:
    """A matrix of an hour later, in which the links are gone, changes nothing for a job that began before."""
    late = matrix("n3", 4, HOUR, "SYS")
    before, after = (
        placed(made(*(held("1", start, 2 * HOUR, host, 0, 1) for host in ("n1", "n2")),
                    *(held(f"x{host}", 0, 2 * HOUR, host, 2, 3) for host in ("n1", "n2")), late=late))
        for start in (0, 90 * 60)
    )  # fmt: skip

    assert ("D", "nvlink") == (before["grade"], before["best"]["kind"])
    assert ("A", "node") == (after["grade"], after["best"]["kind"])


def test_what_is_missing_of_a_node_without_links_comes_with_the_fix() -> None:
    found = placed(made(held("1", 0, HOUR, "n1", 0, 1), dark=True))

    assert "Not graded: the links inside its node are not known." == found["why"]
    assert ["links of n1"] == [row["what"] for row in found["missing"]]
    assert "nvidia-smi topo -m" in found["missing"][0]["fix"]


SLOWED: dict[str, Any] = {
    "at": "2026-11-02T00:00:00Z",
    "slowdown": {"lost_ratio_low": 0.1569, "lost_ratio_high": 0.4159},
}
"""What `of_runs` tells of a gang on slow links, as far as its cost needs it."""


def run(run_id: int, start: int, end: int | None) -> dict[str, Any]:
    return {"run_id": run_id, "start_us": us(start), "end_us": None if end is None else us(end)}


@pytest.mark.parametrize(
    ("costs", "expected"),
    [
        pytest.param({1: None}, (None, None, None), id="no rate"),
        pytest.param({1: (100, "USD"), 2: None}, (None, None, None), id="a part without a rate"),
        pytest.param({1: (100, "USD"), 2: (100, "EUR")}, (None, None, None), id="two currencies"),
        pytest.param({1: (100, "USD"), 2: (50, "USD")}, ("23.54", "62.38", "USD"), id="two pods of it"),
        pytest.param({1: (100, "USD"), 2: (0, "USD"), 3: (900, "USD")}, ("15.69", "41.59", "USD"), id="not later runs"),
    ],
)  # fmt: skip
def test_what_the_lost_work_cost(costs: dict[int, tuple[int, str] | None], expected: tuple[Any, ...]) -> None:
    runs = [run(1, 0, HOUR), run(2, -HOUR, None) if 2 in costs else run(2, HOUR, None), run(3, HOUR, None)]
    known = {run_id: None if cost is None else (Fraction(cost[0]), cost[1]) for run_id, cost in costs.items()}
    found = with_cost(SLOWED, runs, known)

    assert found is not None
    assert expected == tuple(found["slowdown"][name] for name in ("cost_low", "cost_high", "currency"))


def test_without_a_slowdown_nothing_is_lost() -> None:
    assert None is with_cost(None, [], {})
    assert {"slowdown": None} == with_cost({"slowdown": None}, [], {})
