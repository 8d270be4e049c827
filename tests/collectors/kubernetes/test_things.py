"""Objects of registered kinds: what is news of them, what their deletion means, and the two kinds of queues read here."""

from __future__ import annotations

import json
from typing import Any

import pytest

from gpuwatch.collectors.kubernetes.changes import ClusterChanges
from gpuwatch.collectors.kubernetes.kinds import Kind, Rows, find_kind, object_kind
from gpuwatch.collectors.kubernetes.quota import priority_class, resource_quota
from gpuwatch.collectors.shared import changes
from gpuwatch.collectors.shared.changes import LastWritten
from gpuwatch.collectors.shared.json_fields import Malformed, Object
from gpuwatch.core.clock import HOUR_US, SECOND_US

T0_US = 1_793_577_600_000_000
Json = dict[str, Any]


def us(seconds: float) -> int:
    return T0_US + round(seconds * SECOND_US)


def shaped(item: Object, observed_us: int | None) -> Rows:
    """Rows as an object of the test lists them."""
    for table, row in item["rows"]:
        yield table, row | {"observed_us": observed_us}


THING = Kind("Thing", "test.example", "things", ("v1",), True, shaped)


def thing(*rows: tuple[str, Json], uid: str = "u1", namespace: str = "lab") -> Json:
    return {"metadata": {"uid": uid, "name": f"n-{uid}", "namespace": namespace}, "rows": list(rows)}


def queue(flavor: str = "h100", used: int = 0) -> tuple[str, Json]:
    return "queue", {"kind": "queue", "name": "q", "flavor": flavor, "state": "Open", "used": used}


def gang(state: str = "running", start: float = 0, end: float | None = None) -> tuple[str, Json]:
    ended = None if end is None else us(end)
    return "workload", {"kind": "Thing", "uid": "u1", "state": state, "start_us": us(start), "end_us": ended}


def news(book: ClusterChanges, at: float, table: str) -> list[Json]:
    return book.take(us(at)).get(table, [])


def test_an_object_without_rows_leaves_nothing() -> None:
    book = ClusterChanges()

    assert "u1" == book.object(THING, thing(), us(0))
    book.object_deleted(THING, "u1", us(5), us(5))
    assert {} == book.take(us(5))


def test_what_does_not_change_is_reported_again_after_an_hour_only() -> None:
    book, listed = ClusterChanges(), []
    for at in (0, 10, 3599, 3600, 3610):
        book.object(THING, thing(queue()), us(at))
        listed.append(len(news(book, at, "queue")))

    assert [1, 0, 0, 1, 0] == listed


def test_what_nobody_speaks_of_is_reported_again_after_an_hour() -> None:
    """A quiet watch is no sign that a queue is gone."""
    book = ClusterChanges()
    book.object(THING, thing(queue(), gang()), us(0))
    book.take(us(0))

    assert {} == book.take(us(3599))
    assert [us(3600)] == [row["observed_us"] for row in news(book, 3600, "queue")]
    assert {} == book.take(us(3601))


def test_each_row_of_an_object_is_news_by_itself() -> None:
    book = ClusterChanges()
    book.object(THING, thing(queue("h100"), queue("a100")), us(0))
    book.take(us(0))
    book.object(THING, thing(queue("h100"), queue("a100", used=4)), us(1))

    assert [("a100", 4)] == [(row["flavor"], row["used"]) for row in news(book, 1, "queue")]


def test_a_flavor_that_a_queue_no_longer_has_is_deleted() -> None:
    book = ClusterChanges()
    book.object(THING, thing(queue("h100"), queue("a100")), us(0))
    book.take(us(0))
    book.object(THING, thing(queue("h100")), us(1))

    assert [("a100", "deleted", us(1))] == [(r["flavor"], r["state"], r["observed_us"]) for r in news(book, 1, "queue")]


@pytest.mark.parametrize(
    ("row", "expected"),
    [
        pytest.param(gang(), us(50), id="what ran ends now"),
        pytest.param(gang("finished", end=30), us(30), id="what had ended keeps its end"),
        pytest.param(gang(start=80), us(80), id="never before it began"),
    ],
)
def test_a_workload_that_is_deleted_has_ended(row: tuple[str, Json], expected: int) -> None:
    book = ClusterChanges()
    book.object(THING, thing(row), us(0))
    book.take(us(0))
    book.object_deleted(THING, "u1", us(50), us(60))

    assert [("deleted", expected, us(60))] == [
        (r["state"], r["end_us"], r["observed_us"]) for r in news(book, 50, "workload")
    ]
    assert {} == book.take(us(50) + HOUR_US), "what is gone is not heard of again"


def test_a_list_of_a_namespace_deletes_nothing_elsewhere() -> None:
    book = ClusterChanges()
    for uid, namespace in (("u1", "lab"), ("u2", "lab"), ("u3", "sales")):
        _, row = queue()
        book.object(THING, thing(("queue", row | {"name": uid}), uid=uid, namespace=namespace), us(0))
    book.take(us(0))
    book.objects_listed(THING, {"u1"}, us(20), us(60), "lab")

    assert [("u2", "deleted", us(60))] == [(r["name"], r["state"], r["observed_us"]) for r in news(book, 60, "queue")]


def test_a_workload_that_went_unseen_ended_when_it_was_last_known() -> None:
    book = ClusterChanges()
    book.object(THING, thing(gang()), us(0))
    book.take(us(0))
    book.objects_listed(THING, set(), us(20), us(60), None)

    assert [us(20)] == [row["end_us"] for row in news(book, 60, "workload")]


def test_events_about_an_object_that_gave_rows_are_kept() -> None:
    def event(kind: str, name: str) -> Json:
        about = {"kind": kind, "namespace": "lab", "name": name}
        return {"metadata": {"uid": f"e-{name}"}, "involvedObject": about, "eventTime": "2026-11-02T00:00:00Z"}

    book = ClusterChanges()
    book.object(THING, thing(gang()), us(0))
    for item in (event("Thing", "n-u1"), event("Thing", "other"), event("Other", "n-u1")):
        book.event(item)

    assert ["n-u1"] == [row["name"] for row in news(book, 0, "event")]


def test_objects_beyond_the_limit_are_written_every_time() -> None:
    written = LastWritten(max_rows=1)

    assert [True, True, True, False] == [written.update(key, {"a": 1}, us(0)) for key in ("x", "y", "y", "x")]
    assert changes.REFRESH_US == HOUR_US


# The registry ---------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("item", "expected"),
    [
        pytest.param({"kind": "Secret", "apiVersion": "v1"}, None, id="a kind that nothing reads"),
        pytest.param({"kind": "Job", "apiVersion": "v1"}, None, id="the right kind of another group"),
        pytest.param({"kind": 7}, None, id="a kind that is no text"),
        pytest.param({"kind": "ResourceQuota", "apiVersion": "v1"}, "resourcequotas", id="a kind of the core group"),
        pytest.param({"kind": "Job", "apiVersion": "batch/v1"}, "jobs", id="group and kind"),
        pytest.param({"kind": "TrainJob"}, "trainjobs", id="no version, and only one kind of that name"),
    ],
)
def test_who_reads_an_object(item: Json, expected: str | None) -> None:
    known = find_kind(item)

    assert expected == (known.plural if known else None)


def test_a_kind_is_registered_once() -> None:
    with pytest.raises(ValueError, match="batch/Job is registered twice"):
        object_kind("Job", "batch", "jobs", ("v1",))(shaped)


# Quotas and priorities ------------------------------------------------------------------------------------------------


def quota(hard: Json, used: Json, **spec: Any) -> Json:
    return {
        "metadata": {"name": "gpus", "namespace": "lab"},
        "spec": {"hard": hard} | spec,
        "status": {"hard": hard, "used": used},
    }


def test_a_quota_that_bounds_no_gpus_gives_no_row() -> None:

    assert [] == list(resource_quota(quota({"pods": "10", "requests.cpu": "4"}, {"pods": "1"}), 5))


@pytest.mark.parametrize(
    ("hard", "expected"),
    [
        pytest.param({"requests.nvidia.com/gpu": "8"}, {"": 8}, id="whole GPUs"),
        pytest.param({"requests.nvidia.com/gpu": "8", "limits.nvidia.com/gpu": "8"}, {"": 8}, id="limits say the same again"),
        pytest.param({"requests.nvidia.com/mig-1g.10gb": "7"}, {"1g.10gb": 7}, id="slices"),
        pytest.param({"requests.nvidia.com/gpu": "0"}, {"": 0}, id="none may be used"),
        pytest.param({"gpu.nvidia.com.deviceclass.resource.k8s.io/devices": "4"}, {"": 4}, id="DRA counts by device class"),
    ],
)  # fmt: skip
def test_what_a_quota_bounds(hard: Json, expected: Json) -> None:
    rows = list(resource_quota(quota(hard, hard), 5))

    assert [("queue", "resource_quota", "gpus", "lab", 5)] == [
        (table, row["kind"], row["name"], row["namespace"], row["observed_us"]) for table, row in rows
    ]
    assert [expected, expected] == [json.loads(rows[0][1][column]) for column in ("quota_max", "used")]


def test_replicas_of_shared_gpus_are_no_gpus() -> None:
    [(_, row)] = resource_quota(quota({"requests.nvidia.com/gpu.shared": "16"}, {}, scopes=["NotTerminating"]), 5)

    assert (None, None) == (row["quota_max"], row["used"])
    assert {"hard": {"nvidia.com/gpu.shared": 16}, "scopes": ["NotTerminating"]} == json.loads(row["detail"])


@pytest.mark.parametrize(
    ("item", "expected"),
    [
        pytest.param({"value": 1000}, (1000, {"preemptionPolicy": "PreemptLowerPriority"}, None), id="the policy has a default"),
        pytest.param({"value": -5, "preemptionPolicy": "Never"}, (-5, {"preemptionPolicy": "Never"}, None), id="may be negative"),
        pytest.param({"value": 0, "globalDefault": True}, (0, {"preemptionPolicy": "PreemptLowerPriority"}, {"globalDefault": True}), id="the default"),
    ],
)  # fmt: skip
def test_priority_classes(item: Json, expected: tuple[int, Json, Json | None]) -> None:
    [(table, row)] = priority_class({"metadata": {"name": "high"}} | item, 5)
    detail = json.loads(row["detail"]) if row["detail"] else None

    assert ("queue", "priority_class", "high") == (table, row["kind"], row["name"])
    assert expected == (row["priority"], json.loads(row["preemption"]), detail)


def test_a_priority_that_is_no_number_is_refused() -> None:
    with pytest.raises(Malformed, match="value is not a whole number"):
        list(priority_class({"metadata": {"name": "high"}, "value": "many"}, 5))
