"""Jobs of a Ray head that no longer reports: nothing shows whether they still run."""

from __future__ import annotations

from typing import Any

import pytest

from tests.worlds.world import BUSY, HOUR, Gpu, World, claim, minutes, node, samples, seconds, us

A, B = Gpu("GPU-a"), Gpu("GPU-b", index=1)


def ray(session: str, index: int, evidence: float, state: str = "RUNNING", **words: Any) -> dict[str, Any]:
    """A job of a session on one GPU, alive at its last report."""
    row = {"run_key": f"j@{session}", "pod_uid": f"a{index}", "kind": "ray", "device_indexes": str(index), **words}
    return claim(row.pop("job_id", "j"), 0, None, "n1", scheduler="ray", evidence=evidence, state=state, **row)


def states(world: World) -> list[tuple[str, float | int, bool, str | None]]:
    """Run, end, whether it ended, and state."""
    rows = world.store.sql("select run_key, end_us, ended, state from run order by run_key")
    return [(key, seconds(end), ended, state) for key, end, ended, state in rows]


@pytest.mark.parametrize("state", ["RUNNING", "ALIVE", "CREATED", "RUNNING_IN_RAY_GET"])
def test_a_job_of_a_head_silent_for_more_than_an_hour_has_no_known_state(state: str) -> None:
    world = World().add(samples(A, minutes(0, HOUR + 660), BUSY), ray("s1", 0, 600, state))

    assert [("j@s1", 600, True, None)] == states(world.book())


def test_a_job_of_a_head_silent_for_an_hour_still_runs() -> None:
    world = World().add(samples(A, minutes(0, HOUR + 600), BUSY), ray("s1", 0, 600))

    assert [("j@s1", 600, False, "RUNNING")] == states(world.book())


def test_another_heads_reports_are_evidence_too() -> None:
    world = World().add(samples(A, minutes(0, 600), BUSY), ray("s1", 0, 600), ray("s2", 1, 2 * HOUR))

    assert [("j@s1", 600, True, None), ("j@s2", 2 * HOUR, False, "RUNNING")] == states(world.book())


def test_reports_of_another_cluster_are_no_evidence() -> None:
    other = ray("s2", 1, 5 * HOUR) | {"cluster": "c2"}
    world = World().add(samples(A, minutes(0, 600), BUSY), ray("s1", 0, 600), other)

    assert [("j@s1", 600, False, "RUNNING")] == states(world.book())


def test_a_finished_job_of_a_silent_head_keeps_its_outcome() -> None:
    ended = ray("s1", 0, 300, "SUCCEEDED") | {"end_us": ray("s1", 0, 300)["evidence_us"]}
    world = World().add(samples(A, minutes(0, 3 * HOUR), BUSY), ended)

    assert [("j@s1", 300, True, "SUCCEEDED")] == states(world.book())


def test_a_slurm_job_runs_on_while_slurm_is_silent() -> None:
    world = World().add(samples(A, minutes(0, 3 * HOUR), BUSY), claim("7", 0, None, evidence=600, state="RUNNING"))

    assert [("7", 600, False, "RUNNING")] == states(world.book())


def raylet(state: str, since: float, at: float, name: str = "n1") -> dict[str, Any]:
    """A report of a Ray node."""
    return node(name, {"": 2}, at=at, scheduler="ray", state=state, since_us=us(since))


def test_a_job_on_a_node_that_joined_again_ended_with_its_last_report() -> None:
    """The head crashed after 600 s and began again on its machine, under the same session: nothing shows how the job ended."""
    world = World().add(samples(A, minutes(0, HOUR), BUSY), ray("s1", 0, 600), raylet("up", 0, 600))
    world.add(raylet("up", 1200, HOUR), ray("s1", 1, HOUR, job_id="k", run_key="k@s1"))

    assert [("j@s1", 600, True, None), ("k@s1", HOUR, False, "RUNNING")] == states(world.book())


def test_a_job_on_a_lost_node_ended_with_the_node() -> None:
    world = World().add(samples(A, minutes(0, HOUR), BUSY), ray("s1", 0, 600), raylet("up", 0, 600))
    world.add(raylet("down", 900, HOUR), ray("s1", 1, HOUR, job_id="k", run_key="k@s1") | {"node": "n2"})

    assert [("j@s1", 900, True, None), ("k@s1", HOUR, False, "RUNNING")] == states(world.book())


def test_a_job_on_a_node_that_was_missing_from_one_report_runs_on() -> None:
    world = World().add(samples(A, minutes(0, HOUR), BUSY), ray("s1", 0, 600))
    world.add(raylet("up", 0, 600), raylet("down", 900, 900), raylet("up", 0, HOUR))
    world.add(ray("s1", 1, HOUR, job_id="k", run_key="k@s1"))

    assert [("j@s1", HOUR, False, "RUNNING"), ("k@s1", HOUR, False, "RUNNING")] == states(world.book())


def test_a_job_that_was_requeued_in_its_first_second_and_runs_is_not_over() -> None:
    """Slurm has a record of no length of the first start, and one of the job that runs: both start then."""
    world = World().add(samples(A, minutes(0, HOUR), BUSY), claim("7", 0, 0, evidence=0, state="REQUEUED"))
    world.add(claim("7", 0, None, evidence=HOUR, state="RUNNING"))

    assert [("7", HOUR, False, "RUNNING")] == states(world.book())


@pytest.mark.parametrize("state", ["COMPLETED", "CANCELLED", "FAILED", "TIMEOUT"])
def test_a_job_that_was_seen_and_ended_in_its_first_second_holds_nothing(state: str) -> None:
    """A poll that saw it run is answered a moment later than it ended, as after a resize."""
    world = World().add(samples(A, minutes(0, HOUR), BUSY), claim("7", 0, None, evidence=5, state="RUNNING"))
    world.add(claim("7", 0, 0, evidence=0, state=state))

    assert [] == states(world.book())
