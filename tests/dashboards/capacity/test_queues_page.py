"""The page of queues: quota, waits and reasons; what no scheduler reports is not zero."""

from __future__ import annotations

from typing import Any

import pytest

from gpuwatch.dashboards.components.parts import Node
from gpuwatch.dashboards.fleet import capacity_queue
from gpuwatch.dashboards.pages.work import queues
from gpuwatch.dashboards.shell.query import Query
from tests.dashboards.fake_names import HOSTILE
from tests.dashboards.laid_out import answering, asked, check_layout, links, shown, text

HOUR = 3600.0
NOTHING = {"workloads": 0, "unknown": 0, "devices": {}, "longest_seconds": None, "reasons": {}, "why": None}
QUOTA = "waits for quota: what the queue may use is in use"


def queue(name: str, kind: str = "cluster_queue", **more: Any) -> dict[str, Any]:
    """A queue of which nothing is reported and in which nothing waits."""
    unknown = dict.fromkeys(("quota", "quota_max", "used", "borrowed", "parent", "namespace", "state"))
    return {"cluster": "k8s", "scheduler": "kueue", "kind": kind, "name": name, **unknown, "waiting": NOTHING, **more}


def gang(name: str, state: str = "pending", **more: Any) -> dict[str, Any]:
    """A gang of eight GPUs that has waited for two hours in vq, for quota."""
    row = {
        "cluster": "k8s", "scheduler": "kueue", "uid": name, "name": name, "namespace": "lab", "job": f"lab/{name}",
        "team": "vision", "user": "dan", "queue": "vq", "cluster_queue": None, "state": state, "gpus": 8,
        "profile": None, "devices": None, "wait_seconds": 2 * HOUR, "why": QUOTA, "reason": "WaitingForQuota",
    }  # fmt: skip
    return row | more


def drawn(queued: list[dict[str, Any]], gangs: list[dict[str, Any]], path: str = "/queues", **more: Any) -> Node:
    """The page over these queues and workloads."""
    answers = {"queues": {"items": queued, "next": None}, "workloads": {"items": gangs, "next": None, **more}}
    return shown(path, source=answering(answers))


def test_without_queues_the_page_says_what_reports_them() -> None:
    shown_text = text(drawn([], []))

    assert "No queues and no requests that wait" in shown_text
    assert "Requests that wait" not in shown_text.replace("no requests that wait", "")


def test_people_and_flavors_are_no_queues() -> None:
    shown_text = text(drawn([queue("ann", "user"), queue("a100", "resource_flavor"), queue("train")], []))

    assert "train" in shown_text
    assert "ann" not in shown_text.split()
    assert "a100" not in shown_text


def test_what_is_not_reported_is_not_zero() -> None:
    row = queues.line(queue("train"), asked("/queues"))

    assert [queues.formats.MISSING] * 3 == [text(cell).split()[0] for cell in row[1:4]]
    assert "0" == text(queues.devices({}))


def test_a_queue_shows_quota_use_and_waits_in_words() -> None:
    waiting = {"workloads": 2, "devices": {"": 12, "1g.10gb": 1}, "longest_seconds": 5 * HOUR, "why": QUOTA}
    row = queue("cq", quota={"": 16}, used={"": 20}, borrowed={"": 4}, waiting=waiting, parent="all")
    _, quota, held, borrowed, count, wanted, longest, why = (
        text(cell).strip() for cell in queues.line(row, asked("/queues"))
    )

    assert ("16", "20", "4", "2") == (quota, held, borrowed, count)
    assert ("12 + 1 × 1g.10gb", "5 h") == (wanted, longest)
    assert "Waits for quota: what the queue may use is in use" == why


def test_the_longest_wait_comes_first_and_idle_queues_last() -> None:
    rows = [
        queue("idle"),
        queue("short", waiting={"workloads": 1, "longest_seconds": 60.0}),
        queue("long", waiting={"workloads": 1, "longest_seconds": HOUR}),
    ]

    assert ["long", "short", "idle"] == [row["name"] for row in sorted(rows, key=queues.place_of)]


def test_a_queue_that_only_requests_name_is_listed_without_quota() -> None:
    """Slurm's partitions have no quota record."""
    waits = gang("4811", queue="h100", scheduler="slurm", gpus=None, why="waits behind requests of higher priority")
    shown_text = text(drawn([], [waits, gang("4812", queue="h100", gpus=4)]))

    assert "h100 no quota reported" in shown_text
    assert "2 4 2 h" in shown_text
    assert "1 not known" in shown_text


@pytest.mark.parametrize("row", [gang("run", "running", queue="vq"), gang("in", queue="lq", cluster_queue="vq")])
def test_a_queue_with_a_record_is_listed_once(row: dict[str, Any]) -> None:
    assert [] == queues.unreported(queues.Data([queue("vq")], [row], False))


def test_one_queue_shows_what_waits_and_runs_in_it_and_below_it() -> None:
    tree = [queue("all", "cohort"), queue("cq", parent="all"), queue("vq", "local_queue", parent="cq"), queue("other")]
    rows = [gang("first"), gang("running", "running", why=None), gang("elsewhere", queue="other")]
    layout = drawn(tree, rows, "/queues?queue=cq&in=k8s")
    shown_text = text(layout)

    assert "Queue cq" in shown_text
    assert "first" in shown_text
    assert "Runs" in shown_text
    assert "elsewhere" not in shown_text
    assert "/ui/jobs/lab/first?in=k8s" in links(layout)
    assert {"all", "cq", "vq"} == queues.below(tree, "all")


def test_a_cycle_of_queues_ends() -> None:
    assert {"a", "b"} == queues.below([queue("a", parent="b"), queue("b", parent="a")], "a")


def test_headlines_count_waiting_requests_only() -> None:
    shown_text = text(
        drawn([queue("vq")], [gang("a"), gang("b", gpus=4, why="waits for its turn"), gang("c"), gang("d", "running")])
    )

    assert "Requests that wait 3 as of now" in shown_text
    assert "GPUs they ask for 20" in shown_text
    assert "Waits for quota: what the queue may use is in use 2 of 3 requests" in shown_text


def test_more_than_one_answer_holds_says_so() -> None:
    shown_text = text(drawn([queue("vq")], [gang("a")], next="c2"))

    assert "at least" in shown_text
    assert "Only the first 1,000 queues" in shown_text


def test_hostile_names_stay_text() -> None:
    check_layout(drawn([queue(HOSTILE, parent=HOSTILE)], [gang(HOSTILE, why=HOSTILE, queue=HOSTILE, job=HOSTILE)]))


def test_a_queue_leads_to_its_jobs_and_to_those_of_the_queues_below_it() -> None:
    queued = [queue("train"), queue("lab", "local_queue", parent="train"), queue("other")]

    assert "/ui/jobs?queue=lab%2Ctrain" in links(drawn(queued, [], "/queues?queue=train"))
    assert [] == [href for href in links(drawn(queued, [])) if href.startswith("/ui/jobs?queue")]


def test_one_request_that_waits_for_gpus_is_counted_once() -> None:
    row = {"waits_for": "gpus"}

    assert "1 request waits for GPUs or MIG slices" == capacity_queue.title([row], False)
    assert "2 requests wait, 1 of them for GPUs or MIG slices" == capacity_queue.title([row, {}], False)
    assert "1 request waits" == capacity_queue.title([row], True)


@pytest.mark.parametrize(
    ("row", "expected"),
    [
        ({"shape": "1", "gpus": 1}, "1 GPU"),
        ({"shape": "2x8", "gpus": 16}, "2x8 GPUs"),
        ({"shape": "0.5"}, "0.5 GPUs"),
        ({"shape": "2x1g.10gb"}, "2x1g.10gb"),
        ({"gpus": 4}, "4 GPUs"),
        ({}, "- GPUs"),
    ],
)
def test_a_request_says_what_it_asks_for(row: dict[str, Any], expected: str) -> None:
    assert expected == capacity_queue.asked(row).replace(capacity_queue.formats.MISSING, "-")


def test_requests_that_are_alike_are_one_row() -> None:
    """Nine requests of one job array say nine times the same."""
    one = {"name": "eval", "job": "1", "team": "nlp", "queue": "q", "gpus": 2, "why": "busy", "wait_seconds": "7200"}
    other = {**one, "job": "4", "why": "quota"}
    found = capacity_queue.groups([one, {**one, "job": "2"}, other, {**one, "job": "3"}])
    card = text(capacity_queue.queue({"items": [one] * 30}, Query("/capacity")))

    assert [(one, 3), (other, 1)] == found
    assert "30 requests like this" in card
    assert "30 requests wait" in card
    assert " more" not in card
