"""Doctor: a job that is recorded twice, and a node with more GPUs than it has, are never OK."""

from __future__ import annotations

from typing import Any

import pytest

from gpuwatch.ledger import attribution
from gpuwatch.ledger import hours as ledger_hours
from gpuwatch.output.fix_hints import Advice
from gpuwatch.quality.check import FAIL, NOT_JUDGED, OK, WARN, Check
from gpuwatch.quality.doctor import examine
from tests.worlds.world import HOUR, World, claim, node, pod


def run(job: str, start: float, end: float, count: int = 1, **words: str) -> object:
    """A finished run, which its start identifies as in Slurm's records."""
    return claim(job, start, end, count=count, run_key=f"{job}@{start}", **words)


def checks(*records: object, files: tuple[int, ...] = ()) -> dict[str, Check]:
    """Of a world with records; `files` are those that gave the claims, in their order (0: no file)."""
    world = World().add(*records)  # type: ignore[arg-type]
    for number, file in enumerate(files):
        if file:
            world.store.sql("update claim set file_id = $f where rowid = $n", f=file, n=number)
            world.store.sql("insert into import_given values ($i, $f)", i=file % 100, f=file)
    return {check.id: check for check in examine(world.book().store)}


@pytest.mark.parametrize(
    ("second", "files"),
    [
        pytest.param(run("2", 2 * HOUR, 5 * HOUR), (101, 102), id="another job"),
        pytest.param(run("1", 3 * HOUR, 4 * HOUR + 7), (101, 102), id="a requeued job"),
        pytest.param(run("1", 4 * HOUR, 7 * HOUR), (101, 101), id="a cron job of one export"),
        pytest.param(run("1", 3 * HOUR + 60, 6 * HOUR + 60), (101, 102), id="no shift of a time zone"),
        pytest.param(run("1", 30 * HOUR, 33 * HOUR), (101, 102), id="more than a day later"),
        pytest.param(
            run("1", 9 * HOUR, 12 * HOUR, user_name="bob"), (101, 102), id="an id that another user got after a reset"
        ),
    ],
)
def test_another_run_is_not_twice(second: object, files: tuple[int, ...]) -> None:
    first = run("1", 0, 3 * HOUR, user_name="ann")
    found = checks(node(devices={"": 8}), first, second, files=files)

    assert (OK, OK, OK, OK) == tuple(found[name].status for name in ("doubled", "inventory", "conflicts", "books"))


@pytest.mark.parametrize(
    ("second", "files", "hours"),
    [
        pytest.param(run("1", HOUR, 4 * HOUR), (101, 102), "1 h", id="overlapping"),
        pytest.param(run("1", HOUR, 4 * HOUR), (0, 0), "1 h", id="overlapping in live records"),
        pytest.param(run("1", 9 * HOUR, 12 * HOUR), (101, 102), "9 h", id="shifted by nine hours"),
        pytest.param(run("1", 9 * HOUR, 12 * HOUR, user_name="ann"), (101, 102), "9 h", id="whose user one has"),
        pytest.param(run("1", 5.5 * HOUR, 8.5 * HOUR), (101, 102), "5.5 h", id="shifted by half an hour more"),
    ],
)
def test_the_same_job_twice_is_an_error(second: object, files: tuple[int, ...], hours: str) -> None:
    every = checks(node(devices={"": 8}), run("1", 0, 3 * HOUR), second, files=files)
    found = every["doubled"]

    assert (FAIL, "1 jobs are recorded twice: devices are held twice in c1") == (
        every["conflicts"].status,
        every["conflicts"].what,
    )
    assert (FAIL, "1 jobs are recorded twice: the ledger cannot be relied on in c1") == (
        every["books"].status,
        every["books"].what,
    )
    assert found.fix == every["books"].fix
    assert (FAIL, f"1 jobs are recorded twice, {hours} apart, and charged twice: c1/1") == (found.status, found.what)
    assert "import --forget ID" in found.fix
    assert ("imports 1, 2." in found.fix) == (files == (101, 102))


def test_a_node_that_holds_more_than_it_has_is_an_error() -> None:
    found = checks(node(devices={"": 2}), run("1", 0, 3 * HOUR, count=2), run("2", HOUR, 2 * HOUR, count=2))

    assert FAIL == found["inventory"].status
    assert "c1/n1 has 2 and holds 4 at 2026-11-02T01:00:30Z" in found["inventory"].what


def test_an_id_that_was_given_again_on_another_node_is_another_job() -> None:
    again = claim("1", 9 * HOUR, 12 * HOUR, "n2", run_key=f"1@{9 * HOUR}")
    found = checks(node(devices={"": 8}), node("n2", {"": 8}), run("1", 0, 3 * HOUR), again, files=(101, 102))

    assert (OK, OK, OK) == tuple(found[name].status for name in ("doubled", "conflicts", "books"))


def test_jobs_that_follow_each_other_are_not_held_at_once() -> None:
    """The next job may begin in the last seconds of the one before."""
    found = checks(node(devices={"": 2}), run("1", 0, HOUR, count=2), run("2", HOUR - 20, 2 * HOUR, count=2))

    assert OK == found["inventory"].status


def test_without_an_inventory_nothing_is_judged() -> None:
    found = checks(run("1", 0, HOUR, count=2))

    assert (NOT_JUDGED, OK) == (found["inventory"].status, found["doubled"].status)


@pytest.mark.parametrize(
    ("record", "advice", "fix"),
    [
        pytest.param(
            run("1", 0, HOUR),
            Advice(data="my data"),
            "Import the nodes of the scheduler:\n"
            "scontrol show node -d > nodes.txt && gpuwatch import scontrol nodes.txt --cluster c1 --data 'my data'\n"
            "gpuwatch analyze --data 'my data'",
            id="Slurm's nodes",
        ),
        pytest.param(
            pod("a", "u1", 0, HOUR),
            Advice(),
            "Import the nodes of the scheduler:\n"
            "kubectl get nodes -o json > nodes.json && gpuwatch import k8s-json nodes.json --cluster c1\n"
            "gpuwatch analyze",
            id="nodes of Kubernetes",
        ),
        pytest.param(
            run("1", 0, HOUR),
            Advice(url="http://127.0.0.1:8765"),
            "Name [[slurm]] in gpuwatch.toml: it reads the nodes of the scheduler.",
            id="a running server",
        ),
    ],
)
def test_a_node_list_that_lacks_is_a_command_to_paste(record: Any, advice: Advice, fix: str) -> None:
    found = {check.id: check for check in examine(World().add(record).book().store, advice=advice)}

    assert (NOT_JUDGED, fix) == (found["inventory"].status, found["inventory"].fix)


def two_clusters(first: dict[str, Any], second: dict[str, Any]) -> dict[str, Check]:
    """Of a store in which each cluster has one of these claims."""
    world = World().add(first, second | {"cluster": "other"}).book()
    attribution.attribute(world.store, "other", world.settings)
    ledger_hours.recompute_dirty(world.store, "other", world.settings)
    return {check.id: check for check in examine(world.store)}


ONE = {"user_name": "ann", "run_key": "1@0"}


@pytest.mark.parametrize(
    ("first", "second"),
    [
        pytest.param(
            claim("1", 0, HOUR, **ONE), claim("1", 0, HOUR, **ONE | {"user_name": "bob"}), id="a job of another user"
        ),
        pytest.param(claim("1", 0, HOUR, **ONE), claim("1", 0, HOUR, "n2", **ONE), id="on another node"),
        pytest.param(claim("1", 0, HOUR, **ONE), claim("2", 0, HOUR, **ONE), id="another job"),
        pytest.param(claim("1", 0, HOUR, **ONE), claim("1", 60, HOUR, **ONE), id="at another time"),
        pytest.param(pod("a", "u1", 0, HOUR), pod("a", "u2", 0, HOUR), id="a pod of the same name"),
    ],
)
def test_two_clusters_may_have_jobs_of_one_number(first: dict[str, Any], second: dict[str, Any]) -> None:
    found = two_clusters(first, second)

    assert (OK, OK, OK) == tuple(found[name].status for name in ("doubled", "conflicts", "books"))


@pytest.mark.parametrize(
    ("first", "second", "job", "shift"),
    [
        pytest.param(claim("1", 0, HOUR, **ONE), claim("1", 0, HOUR, **ONE), "1", "", id="a Slurm job"),
        pytest.param(
            claim("1", 0, HOUR, **ONE),
            claim("1", 2 * HOUR, 3 * HOUR, **ONE | {"run_key": "1@2"}),
            "1",
            "2 h apart, ",
            id="and in another time zone",
        ),
        pytest.param(
            claim("1", 0, None, evidence=HOUR, **ONE), claim("1", 0, HOUR, **ONE), "1", "", id="one that still ran"
        ),
        pytest.param(pod("a", "u1", 0, HOUR), pod("a", "u1", 0, HOUR), "lab/a", "", id="a pod"),
    ],
)
def test_a_job_under_two_clusters_is_an_error(
    first: dict[str, Any], second: dict[str, Any], job: str, shift: str
) -> None:
    found = two_clusters(first, second)

    line = f"1 jobs are recorded twice, {shift}in the clusters c1 and other, and charged twice: c1/{job}"
    assert (FAIL, line) == (found["doubled"].status, found["doubled"].what)
    assert "the ledger cannot be relied on in c1, other" in found["books"].what
    assert "--cluster" in found["conflicts"].fix


ESTIMATED = "The jobs' records ask for more GPUs at once than these nodes have"
TWO = "Check that one scheduler owns these nodes"
NAMED = "Two jobs of one scheduler name the same device"


@pytest.mark.parametrize(
    ("records", "cause"),
    [
        pytest.param((claim("1", 0, HOUR, count=2), claim("2", 0, HOUR, count=1)), ESTIMATED, id="estimated devices"),
        pytest.param(
            tuple(claim(job, 0, HOUR, kind="scontrol", device_indexes="0") for job in "12"),
            NAMED,
            id="one device twice",
        ),
        pytest.param((claim("1", 0, HOUR, count=2), pod("p", "u1", 0, HOUR)), TWO, id="two schedulers"),
    ],
)
def test_two_holders_at_once_have_the_cause_that_fits(records: tuple[dict[str, Any], ...], cause: str) -> None:
    found = checks(node(devices={"": 2}), *records)["conflicts"]

    assert WARN == found.status
    assert found.what.startswith("1.0 device-hours are allocated to two jobs at once")
    assert found.fix.startswith(cause)
    assert "\n" not in found.fix
