"""Search finds jobs that wait, which no run names yet, before those that ran; of a team only its own."""

from __future__ import annotations

import json
from collections.abc import Iterator

import pytest

from gpuwatch.billing.chargeback import price_all
from gpuwatch.capacity.waits import WAITING
from gpuwatch.capacity.workloads import workloads
from gpuwatch.jobs.search import search
from gpuwatch.state import State
from tests.ledger.test_stranding import DAY, END, machine, world
from tests.worlds.world import CLUSTER, World, pod, us


@pytest.fixture(scope="module")
def fleet() -> Iterator[World]:
    """Job `n1-0` ran; `n1-7` and `n1-8` of two accounts wait, and `n1-9` no longer does."""
    row = {"cluster": CLUSTER, "scheduler": "slurm", "device_count": 1, "node_count": 1, "submit_us": us(DAY)}
    row |= {"evidence_us": us(END), "reason": "Resources"}
    asked = [
        row | {"job_id": "n1-7", "account": "red"},
        row | {"job_id": "n1-8", "account": "blue", "submit_us": us(DAY + 1)},
        row | {"job_id": "n1-9", "account": "red", "reason": "NoLongerWaits"},
    ]
    made = world(machine("n1", 2, held=1), requests=asked).book()
    yield made
    made.store.close()


def found(fleet: World, q: str, teams: list[str] | None = None, each: int = 5) -> list[tuple[str, bool]]:
    with State.open("sqlite://") as state:
        rows = search(fleet.store, state, q, teams, {}, us(END), each)
    return [(row["id"], row["waits"]) for row in rows if row["kind"] == "job"]


def test_jobs_that_wait_come_first(fleet: World) -> None:
    assert [] == found(fleet, "n1-9")
    assert [("n1-7", True), ("n1-8", True), ("n1-0", False)] == found(fleet, "N1-")
    assert [("n1-7", True)] == found(fleet, "n1-", each=1)


def test_the_members_of_a_gang_that_wait_belong_to_the_team_of_those_that_run() -> None:
    """A label of the pods names the team, which a request does not have."""
    labels = json.dumps({"gpuwatch.io/team": "nlp"})
    row = {"cluster": CLUSTER, "scheduler": "kubernetes", "job_id": "lab/p", "namespace": "lab", "device_count": 1}
    request = row | {"submit_us": us(DAY), "evidence_us": us(END), "reason": "Unschedulable"}
    made = world(
        machine("n1", 2),
        [pod("p", "u1", DAY, None, "n1", labels=labels)],
        requests=[request, request | {"job_id": "lab/q"}],
    )
    with made.book().store as store, State.open("sqlite://") as state:
        price_all(store, state)
        found = {row["job"]: row["team"] for row in workloads(store, state, us(END), states=WAITING)}

    assert {"lab/p": "nlp", "lab/q": "lab"} == found


def test_a_team_finds_its_own_only(fleet: World) -> None:
    assert [("n1-8", True)] == found(fleet, "n1-", ["blue"])
    assert [] == found(fleet, "n1-7", ["blue"])
