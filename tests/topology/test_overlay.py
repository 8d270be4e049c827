"""A job beside the best place that was free at its start, a node's links, and what a failed link touches."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from gpuwatch.capacity.link_reach import link_reach
from gpuwatch.topology.node_view import node_view
from gpuwatch.topology.overlay import job_overlay
from tests.topology.test_jobs import held, made
from tests.worlds.world import CLUSTER, HOUR, World, us


@pytest.fixture(scope="module")
def world() -> Iterator[World]:
    """Job 1 on two GPUs of n1 and two of n2, job 2 inside n1, job 3 on one GPU of n2, everything else free."""
    jobs = (("1", "n1", 0, 1), ("1", "n2", 0, 1), ("2", "n1", 2, 3), ("3", "n2", 2))
    made_world = made(*(held(job, 0, 2 * HOUR, host, *gpus) for job, host, *gpus in jobs))
    yield made_world
    made_world.store.close()


def test_the_best_place_is_one_nvlink_domain(world: World) -> None:
    found = job_overlay(world.store, "1")

    assert found is not None
    assert {"n1", "n2"} == {one["node"] for one in found["gpus"]}
    assert (4, {"n3"}) == (found["best"]["free_gpus"], {one["node"] for one in found["best"]["gpus"]})
    assert (370.8, 50.0) == (found["best"]["gb_per_s"], found["best"]["gb_per_s_now"])
    assert "F" > found["grade"] > "A"


def test_where_nothing_nearer_was_free_there_is_no_other_place(world: World) -> None:
    found = job_overlay(world.store, "2")

    assert found is not None
    assert ("A", None, None) == (found["grade"], found["best"], found["why"])


def test_what_was_free_is_not_shown_to_a_team(world: World) -> None:
    found = job_overlay(world.store, "1", CLUSTER, ["__unallocated__"])

    assert found is not None
    assert (4, None, None) == (len(found["gpus"]), found["best"], found["grade"])
    assert found["why"].startswith("what was free at its start depends on other teams")
    assert job_overlay(world.store, "1", CLUSTER, ["red"]) is None
    assert job_overlay(world.store, "none") is None


def test_a_node_has_the_link_of_each_pair(world: World) -> None:
    found = node_view(world.store, CLUSTER, "n1", us(HOUR))

    assert found is not None
    assert {("NV18", 370.8)} == {(pair["level"], pair["gb_per_s"]) for pair in found["pairs"]}
    assert (6, [("leaf", "l1")]) == (len(found["pairs"]), [(one["kind"], one["name"]) for one in found["inside"]])
    assert {"n1/nvlink-0"} == {gpu["nvlink"] for gpu in found["gpus"]}
    assert node_view(world.store, CLUSTER, "none", us(HOUR)) is None


def test_the_uplink_of_a_node_carries_jobs_on_both_sides(world: World) -> None:
    found = link_reach(world.store, us(2 * HOUR), CLUSTER, "node", "n1")

    assert found is not None
    assert [("1", 4, 2, True), ("2", 2, 2, False)] == [
        (job["job"], job["gpus"], job["gpus_inside"], job["crosses"]) for job in found["jobs"]
    ]


def test_below_one_leaf_no_job_needs_its_uplink(world: World) -> None:
    found = link_reach(world.store, us(2 * HOUR), CLUSTER, "leaf", "l1")

    assert found is not None
    assert (12, 3, {False}) == (found["gpus"], found["nodes"], {job["crosses"] for job in found["jobs"]})
    assert link_reach(world.store, us(HOUR), CLUSTER, "leaf", "none") is None
