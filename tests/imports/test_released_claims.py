"""Two dumps of pods with ResourceClaims: a claim that no longer names its pod does not end the pod."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from gpuwatch.analysis.pipeline import analyze
from gpuwatch.core.clock import rfc3339
from gpuwatch.imports.files import import_paths
from gpuwatch.settings import Settings
from gpuwatch.state import State
from gpuwatch.store.database import Store
from tests.collectors.kubernetes.test_dra import A, B, Json, claim, gpu, pod, resource_slice, us

HOUR = 3600
FIRST = "n1/gpu0"
"""The first GPU of the node, as one without samples is named."""
OWN = resource_slice(gpu("gpu-0", A), gpu("gpu-1", B))
OTHER = pod("other", plugin=1)


@pytest.fixture
def desk(tmp_path: Path) -> Iterator[Desk]:
    with Store.open(None) as store, State.open("sqlite://") as state:
        yield Desk(store, state, tmp_path)


class Desk:
    """A store, and the folder from which dumps are imported into it."""

    def __init__(self, store: Store, state: State, folder: Path) -> None:
        self.store, self.state, self.folder, self.dumps = store, state, folder, 0

    def dump(self, hour: float, *items: Json) -> None:
        """A dump of a node with two GPUs, made at that hour."""
        self.dumps += 1
        path = self.folder / f"dump{self.dumps}.json"
        at = rfc3339(us(hour * HOUR))
        ready = {"type": "Ready", "status": "True", "lastHeartbeatTime": at}
        machine = {
            "kind": "Node",
            "metadata": {"name": "n1"},
            "status": {"capacity": {"cpu": "64"}, "conditions": [ready]},
        }
        path.write_text(json.dumps({"kind": "List", "items": [machine, OWN, OTHER, *items]}))
        import_paths(self.store, self.state, "k8s-json", [path], cluster="c1", now_us=us(100 * HOUR))

    def held(self) -> dict[str, Any]:
        """GPU-hours and GPUs of each pod."""
        analyze(self.store, self.state, Settings(), now_us=us(100 * HOUR))
        rows = self.store.sql(
            """select r.job_id, sum((s.end_us - s.start_us) * s.share_num / s.share_den) / 3.6e9,
                string_agg(distinct d.gpu, ' ' order by d.gpu)
            from segment s join run r using (run_id) join device d using (device_id)
            where r.job_id <> 'lab/other' group by all"""
        )
        return {name: (hours, gpus) for name, hours, gpus in rows}


RELEASED = claim("c", "gpu-0", pods=())
LET_GO = claim("c")
TAKEN = claim("c", "gpu-0", pods=("b",))


@pytest.mark.parametrize("later", [(RELEASED,), (LET_GO,), ()], ids=["reserved for nobody", "let go", "deleted"])
def test_a_pod_that_runs_on_is_held_whatever_became_of_its_claim(desk: Desk, later: tuple[Json, ...]) -> None:
    desk.dump(1, pod("a", "c"), claim("c", "gpu-0"))
    assert {"lab/a": (1.0, FIRST)} == desk.held()
    desk.dump(9, pod("a", "c"), *later)

    assert {"lab/a": (9.0, FIRST)} == desk.held()


@pytest.mark.parametrize(
    "later",
    [(RELEASED,), (LET_GO,), (), (TAKEN,)],
    ids=["reserved for nobody", "let go", "deleted", "taken by another"],
)
def test_a_pod_that_ended_ended_then_whatever_became_of_its_claim(desk: Desk, later: tuple[Json, ...]) -> None:
    desk.dump(1, pod("a", "c"), claim("c", "gpu-0"))
    desk.dump(9, pod("a", "c", end=5 * HOUR), *later)

    assert {"lab/a": (5.0, FIRST)} == desk.held()


def test_a_claim_that_another_pod_took_ends_the_first(desk: Desk) -> None:
    desk.dump(1, pod("a", "c"), claim("c", "gpu-0"))
    desk.dump(9, pod("a", "c"), pod("b", "c"), TAKEN)

    assert {"lab/a", "lab/b"} == set(found := desk.held())
    assert FIRST == found["lab/a"][1] == found["lab/b"][1]
    assert 9.0 == found["lab/a"][0] + found["lab/b"][0]
    assert 1.0 >= found["lab/a"][0], "b holds it since 0 as well: an equal share of the first hour"


def test_the_order_of_the_dumps_does_not_matter(desk: Desk) -> None:
    desk.dump(9, pod("a", "c", end=5 * HOUR), RELEASED)
    desk.dump(1, pod("a", "c"), claim("c", "gpu-0"))

    assert {"lab/a": (5.0, FIRST)} == desk.held()


def test_a_pod_that_had_ended_before_the_only_dump_held_what_its_claim_asks_for(desk: Desk) -> None:
    desk.dump(9, pod("a", "c", end=5 * HOUR), LET_GO)

    assert 5.0 == desk.held()["lab/a"][0]


def test_pods_that_shared_a_claim_and_ended_before_the_only_dump_are_not_guessed(desk: Desk) -> None:
    """They had one GPU together, and nothing shows which part of it."""
    desk.dump(9, pod("a", "c", end=5 * HOUR), pod("b", "c", end=5 * HOUR), LET_GO)

    assert {} == desk.held()


def test_a_pod_whose_claim_was_never_known_holds_nothing(desk: Desk) -> None:
    desk.dump(9, pod("a", "c"))

    assert {} == desk.held()
    assert desk.store.sql("select count(*) from run where job_id = 'lab/a'") == [(0,)]
