"""YuniKorn's REST answers in files: queues, applications, claims; units of time; what is refused."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

import pytest

from gpuwatch.collectors.yunikorn.files import read_yunikorn_json
from gpuwatch.collectors.yunikorn.rows import instant
from gpuwatch.core.clock import parse_rfc3339
from gpuwatch.core.errors import UnreadableInput
from gpuwatch.core.model import Records, Rejects, Source

SHARED = Path(os.environ.get("GPUWATCH_SHARED") or Path(__file__).parents[4] / "shared") / "wire/schedulers/yunikorn"
AT = 1_793_577_600_000_000
NS = AT * 1000
Json = dict[str, Any]
Tables = dict[str, list[Json]]


def tables_of(path: Path) -> tuple[Tables, Rejects]:
    rejects, found = Rejects(), Tables()
    for batch in read_yunikorn_json(Source(str(path), "c1", observed_us=AT), rejects):
        assert isinstance(batch, Records)
        found.setdefault(batch.table, []).extend(batch.rows.to_pylist())
    return found, rejects


def imported(tmp_path: Path, value: Any) -> tuple[Tables, Rejects]:
    path = tmp_path / "answer.json"
    path.write_text(json.dumps(value))
    return tables_of(path)


def allocation(key: str = "uid-1", pod: str = "w-0", labels: Json | None = None, **more: Any) -> Json:
    tags = {"kubernetes.io/meta/namespace": "lab", "kubernetes.io/meta/podName": pod}
    tags |= {f"kubernetes.io/label/{name}": value for name, value in (labels or {}).items()}
    return {
        "allocationKey": key, "allocationTags": tags, "requestTime": NS, "allocationTime": NS + 5_000_000_000,
        "resource": {"memory": 1, "vcore": 1, "nvidia.com/gpu": 8}, "nodeId": "n1", "applicationId": "app-1",
        "partition": "default", "priority": "0",
    } | more  # fmt: skip


def application(**more: Any) -> Json:
    return {
        "applicationID": "app-1", "applicationState": "Running", "queueName": "root.train", "user": "ann",
        "partition": "default", "submissionTime": NS, "usedResource": {"nvidia.com/gpu": 8},
        "pendingResource": {"nvidia.com/gpu": 16}, "requests": [], "allocations": [], "placeholderData": [],
        "stateLog": [
            {"time": NS + 1_000_000_000, "applicationState": "Accepted"},
            {"time": NS + 2_000_000_000, "applicationState": "Running"},
        ],
    } | more  # fmt: skip


def queue(name: str = "root", **more: Any) -> Json:
    return {"queuename": name, "status": "Active", "parent": name.rpartition(".")[0], "children": []} | more


@pytest.mark.parametrize(
    ("value", "expected"),
    [
        pytest.param(None, None, id="nothing"),
        pytest.param(0, None, id="zero is not yet"),
        pytest.param("soon", None, id="a word"),
        pytest.param(True, None, id="a flag"),
        pytest.param(16_487_540_320_812_345_678, None, id="a digit too many"),
        pytest.param(-1, None, id="before all time"),
        pytest.param(1_648_754_032_076_020_293, 1_648_754_032_076_020, id="nanoseconds"),
        pytest.param("1782105319", 1_782_105_319_000_000, id="seconds as text"),
        pytest.param(1_782_105_319_123, 1_782_105_319_123_000, id="milliseconds"),
    ],
)
def test_an_instant_in_whatever_unit(value: object, expected: int | None) -> None:
    assert expected == instant(value)


@pytest.mark.parametrize(
    ("resource", "expected"),
    [
        pytest.param({"memory": 8_000_000_000, "vcore": 8000}, [], id="bytes and milli-CPU are no GPUs"),
        pytest.param({"nvidia.com/gpu": 0}, [], id="none"),
        pytest.param({"nvidia.com/gpu": 8}, [(8, None)], id="GPUs are plain counts"),
        pytest.param({"nvidia.com/mig-1g.10gb": 2}, [(2, "1g.10gb")], id="slices"),
        pytest.param({"nvidia.com/gpu.shared": 2}, [], id="replicas are no GPUs"),
    ],
)
def test_what_an_allocation_holds(tmp_path: Path, resource: Json, expected: list[tuple[int, str | None]]) -> None:
    found, _ = imported(tmp_path, [application(allocations=[allocation(resource=resource)])])

    assert expected == [(row["device_count"], row["profile"]) for row in found.get("claim", [])]


def test_claims_of_applications_and_of_nodes_agree(tmp_path: Path) -> None:
    """The same allocation from both answers is one claim: pod, job, run, start."""
    part = allocation(labels={"batch.kubernetes.io/job-name": "train", "queue": "root.train"})
    by_application, _ = imported(tmp_path, [application(allocations=[part])])
    by_node, _ = imported(tmp_path, [{"nodeID": "n1", "allocations": [part]}])
    names = ("scheduler", "kind", "job_id", "run_key", "pod_uid", "pod", "namespace", "node", "start_us", "queue")
    expected = (
        "kubernetes", "yunikorn", "lab/train", "app-1", "uid-1", "w-0", "lab", "n1", AT + 5_000_000, "root.train",
    )  # fmt: skip

    assert [expected, expected] == [
        tuple(row[n] for n in names) for row in (*by_application["claim"], *by_node["claim"])
    ]


def test_a_pod_that_belongs_to_nothing_is_its_own_job(tmp_path: Path) -> None:
    found, _ = imported(tmp_path, [application(allocations=[allocation()])])

    assert [("lab/w-0", "uid-1")] == [(row["job_id"], row["run_key"]) for row in found["claim"]]


def test_an_application(tmp_path: Path) -> None:
    ask = allocation("uid-2", "w-1", pendingCount=2, taskGroupName="w", allocationLog=[
        {"message": "older", "lastOccurrence": NS, "count": 9},
        {"message": "node(s) had no free GPU", "lastOccurrence": NS + 1, "count": 1},
    ])  # fmt: skip
    groups = [{"taskGroupName": "w", "count": 3, "minResource": {"nvidia.com/gpu": 8}, "replaced": 1, "timedout": 0}]
    found, rejects = imported(
        tmp_path, [application(allocations=[allocation()], requests=[ask], placeholderData=groups)]
    )
    (row,) = found["workload"]
    expected = {
        "uid": "app-1", "queue": "root.train", "user_name": "ann", "state": "running", "reason": "Running",
        "pod_count": 3, "min_count": 3, "device_count": 24, "profile": None, "message": "node(s) had no free GPU",
        "submit_us": AT, "admitted_us": AT + 2_000_000, "start_us": AT + 2_000_000, "end_us": None, "namespace": "lab",
        "placement": '[{"node":"n1","count":1}]',
    }  # fmt: skip

    assert expected == {name: row[name] for name in expected}
    assert {"used": {"": 8}, "pending": {"": 16}} == {k: json.loads(row["detail"])[k] for k in ("used", "pending")}
    assert 0 == rejects.total


@pytest.mark.parametrize(
    ("word", "state"),
    [
        ("New", "pending"), ("Accepted", "pending"), ("Resuming", "pending"), ("Completing", "running"),
        ("Completed", "finished"), ("Rejected", "finished"), ("Dreaming", None),
    ],
)  # fmt: skip
def test_states(tmp_path: Path, word: str, state: str | None) -> None:
    found, _ = imported(tmp_path, [application(applicationState=word)])

    assert (state, word) == (found["workload"][0]["state"], found["workload"][0]["reason"])


def test_an_ended_application_is_the_most_it_held(tmp_path: Path) -> None:
    over = application(
        applicationState="Completed", usedResource={}, pendingResource={}, maxUsedResource={"nvidia.com/gpu": 32},
        finishedTime=NS + 9_000_000_000,
    )  # fmt: skip
    (row,) = imported(tmp_path, [over])[0]["workload"]

    assert (32, AT + 9_000_000) == (row["device_count"], row["end_us"])


def test_queues_of_a_tree(tmp_path: Path) -> None:
    leaf = queue(
        "root.train", guaranteedResource={"nvidia.com/gpu": 8}, maxResource={"nvidia.com/gpu": 16, "memory": 1},
        allocatedResource={"nvidia.com/gpu": 10}, pendingResource={"nvidia.com/gpu": 4}, runningApps=2,
        preemptionEnabled=True, priorityOffset=3, partition="default",
    )  # fmt: skip
    found, _ = imported(tmp_path, [queue(children=[leaf], allocatedResource={"memory": 5})])
    root, train = found["queue"]
    names = ("name", "parent", "quota", "quota_max", "used", "borrowed", "running_count", "priority")

    assert ("root", None, None, None, None, None, None, None) == tuple(root[n] for n in names)
    assert ("root.train", "root", '{"":8}', '{"":16}', '{"":10}', '{"":2}', 2, 3) == tuple(train[n] for n in names)


def test_none_in_use_is_zero_where_the_kind_is_known(tmp_path: Path) -> None:
    idle = queue(maxResource={"nvidia.com/gpu": 16}, allocatedResource={"memory": 5})

    assert '{"":0}' == imported(tmp_path, [idle])[0]["queue"][0]["used"]


def test_queues_of_another_partition_have_its_name(tmp_path: Path) -> None:
    found, _ = imported(tmp_path, [queue("root.a", partition="gpu")])

    assert [("[gpu]root.a", "[gpu]root")] == [(row["name"], row["parent"]) for row in found["queue"]]


def test_a_state_dump_is_read_whole(tmp_path: Path) -> None:
    dump = {
        "timestamp": NS,
        "partitions": [{"name": "default", "clusterId": "c", "capacity": {"capacity": {"nvidia.com/gpu": 64}},
                        "totalNodes": 8, "applications": {"Running": 3, "Pending": 1}}],
        "applications": [application(allocations=[allocation()])],
        "nodes": [{"partitionName": "default", "nodesInfo": [{"nodeID": "n1", "allocations": [allocation()]}]}],
        "queues": [queue()],
    }  # fmt: skip
    found, rejects = imported(tmp_path, dump)

    assert {"queue": 2, "workload": 1, "claim": 2} == {name: len(rows) for name, rows in found.items()}
    assert {} == rejects.counts
    assert ('{"":64}', 3, 1) == tuple(found["queue"][0][n] for n in ("quota", "running_count", "pending_count"))


@pytest.mark.parametrize(
    ("odd", "reason"),
    [
        pytest.param(application(allocations={"a": 1}), "allocations is not a list", id="an object for a list"),
        pytest.param(application(usedResource={"nvidia.com/gpu": "x"}), "not a quantity", id="a word for a count"),
        pytest.param(
            application(allocations=[allocation(nodeId=None)]), "no nodeId", id="an allocation that is nowhere"
        ),
        pytest.param(queue(children=[{"status": "Active"}]), "no queuename", id="a queue without a name"),
        pytest.param({"timestampNano": "now"}, "not a time", id="an event without a time"),
    ],
)
def test_an_odd_item_is_refused_and_the_rest_is_kept(tmp_path: Path, odd: Json, reason: str) -> None:
    found, rejects = imported(tmp_path, [odd, application(applicationID="fine")])

    assert ["fine"] == [row["name"] for row in found["workload"]]
    assert [True] == [reason in text for text in rejects.counts]


def test_a_file_of_something_else_is_refused(tmp_path: Path) -> None:
    with pytest.raises(UnreadableInput, match="no response of YuniKorn"):
        imported(tmp_path, [{"apiVersion": "v1"}])


# Recorded answers --------------------------------------------------------------------------------------------------


def recorded(name: str) -> tuple[Tables, Rejects]:
    path = SHARED / f"{name}.json"
    if not path.exists():
        pytest.skip(f"{path} is not there: recorded answers of YuniKorn are beside the checkout or at GPUWATCH_SHARED")
    return tables_of(path)


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        ("partitions", {"queue": 2}),
        ("queues_partition_queues", {"queue": 2}),
        ("queue_partition_queue", {"queue": 1}),
        ("applications_queue_applications", {"workload": 2}),
        ("application_partition_queue_application", {"workload": 1}),
        ("nodes_partition_nodes", {}),
        ("node_partition_node", {}),
        ("user_quota_and_usage_all_users", {"queue": 6}),
        ("user_quota_and_usage_single_user", {"queue": 3}),
        ("group_quota_and_usage_all_groups", {"queue": 6}),
        ("group_quota_and_usage_single_group", {"queue": 3}),
        ("batch_events", {"event": 2}),
        *((f"event_stream{tail}", {"event": 1}) for tail in ("", "_2", "_3", "_4", "_5")),
    ],
)
def test_recorded_answers(name: str, expected: dict[str, int]) -> None:
    found, rejects = recorded(name)

    assert expected == {table: len(rows) for table, rows in found.items()}
    assert {} == rejects.counts


@pytest.mark.parametrize(
    "name",
    [
        "application_history", "container_history", "clusters_success_response", "configuration_success_response",
        "configuration_validation_success_response", "configuration_validation_success_response_2", "healthcheck",
        "placementrules",
    ],
)  # fmt: skip
def test_recorded_answers_that_say_nothing_of_queues(name: str) -> None:
    found, rejects = recorded(name)

    assert {} == found
    assert [True] == [reason.startswith("ignored: ") for reason in rejects.counts]


def test_recorded_applications() -> None:
    first, second = recorded("applications_queue_applications")[0]["workload"]
    utc = [parse_rfc3339(f"2022-03-31T{t}Z") for t in ("19:13:52.076020", "15:43:29.147432")]

    assert [*utc, "root.default", "running", 0, 2, 2] == [
        first[n] for n in ("submit_us", "start_us", "queue", "state", "device_count", "pod_count", "min_count")
    ]
    assert "node(s) didn't match Pod's node affinity" == first["message"]
    assert [{"node": "node-0001", "count": 1}, {"node": "node-0002", "count": 1}] == json.loads(second["placement"])


def test_recorded_events_have_words() -> None:
    names = ["event_stream", *(f"event_stream_{n}" for n in (2, 3, 4, 5))]
    rows = [recorded(name)[0]["event"][0] for name in names]

    assert ["APP_ACCEPTED SET", "APP_REQUEST ADD", "NODE_ALLOC ADD", "APP_COMPLETED SET", "603 ADD"] == [
        row["reason"] for row in rows
    ]
    assert 5 == len({row["event_id"] for row in rows})
