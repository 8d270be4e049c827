"""kube-state-metrics to scheduler records: names back, objects together again, ends where a pod was told of no more."""

from __future__ import annotations

import json
import os
import re
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from gpuwatch.collectors.kubernetes.files import ObjectReader
from gpuwatch.collectors.prometheus.chunking import QueryRunner
from gpuwatch.collectors.prometheus.http import Access, Client
from gpuwatch.collectors.prometheus.ksm_changes import KsmChanges
from gpuwatch.collectors.prometheus.ksm_names import label_key, original_labels, resource_name
from gpuwatch.collectors.prometheus.ksm_objects import (
    Facts,
    Pod,
    SeriesSpan,
    namespace_objects,
    node_object,
    pod_object,
    pods_of,
    quota_objects,
)
from gpuwatch.collectors.prometheus.ksm_window import Window, node_states
from gpuwatch.collectors.prometheus.kube_state_metrics import SpanRecords, close_claims
from gpuwatch.core.errors import UnreadableInput
from gpuwatch.core.model import Rejects
from tests.collectors.prometheus.test_prometheus import serving

S = 1_000_000
T0 = 1_793_577_600
WIRE = Path(os.environ.get("GPUWATCH_SHARED", Path(__file__).parents[4] / "shared")) / "wire" / "kubernetes"
WHO = {"namespace": "lab", "pod": "p", "uid": "u"}


def asks(count: float = 1, first: int = 0, last: int = 600, **labels: str) -> SeriesSpan:
    """A series of what a container asks for, told from `first` to `last` seconds."""
    own = {"__name__": "kube_pod_container_resource_requests", "resource": "nvidia_com_gpu", "container": "c"}
    return SeriesSpan(own | WHO | labels, count, (T0 + first) * S, (T0 + last) * S)


def facts(**values: Any) -> Facts:
    """Facts by the end of their metric's name: a number, or labels of a metric that is 1."""
    found: dict[str, list[tuple[dict[str, str], float]]] = {}
    for name, value in values.items():
        entries = value if isinstance(value, list) else [value]
        found[f"kube_pod_{name}"] = [
            (WHO | entry, 1.0) if isinstance(entry, dict) else (WHO | {"container": "c"}, float(entry))
            for entry in entries
        ]
    return found


def rows(seen: list[SeriesSpan], known: Facts, waiting: bool = False) -> dict[str, list[dict[str, Any]]]:
    """Rows by table of the pods of some series."""
    reader = ObjectReader(None)
    for pod in pods_of(seen).values():
        reader.take(pod_object(pod, known, waiting))
    assert [] == reader.finish()
    return reader.tables


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("nvidia_com_gpu", "nvidia.com/gpu"),
        ("nvidia_com_gpu_shared", "nvidia.com/gpu.shared"),
        ("nvidia_com_mig_1g_10gb", "nvidia.com/mig-1g.10gb"),
        ("nvidia_com_mig_1g_10gb_me", "nvidia.com/mig-1g.10gb.me"),
        ("nvidia.com/gpu", "nvidia.com/gpu"),
        ("requests.nvidia.com/gpu", "requests.nvidia.com/gpu"),
        ("requests_nvidia_com_gpu", "requests.nvidia.com/gpu"),
        ("cpu", "cpu"),
    ],
)
def test_resources_as_kubernetes_names_them(text: str, expected: str) -> None:
    assert expected == resource_name(text)


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("kueue_x_k8s_io_queue_name", "kueue.x-k8s.io/queue-name"),
        ("nvidia_com_gpu_product", "nvidia.com/gpu.product"),
        ("nvidia_com_mig_1g_10gb_count", "nvidia.com/mig-1g.10gb.count"),
        ("topology_kubernetes_io_zone", "topology.kubernetes.io/zone"),
        ("app", "app"),
        ("my_own_label", "my_own_label"),
    ],
)
def test_label_keys_as_kubernetes_names_them(text: str, expected: str) -> None:
    assert expected == label_key(text)


def test_labels_that_a_scrape_moved_are_moved_back() -> None:
    """The node of a pod without one is empty, and not moved: the plain node is that of the exporter."""
    moved = [
        {"exported_pod": "p", "pod": "ksm", "exported_node": "n1", "node": "n9"},
        {"exported_pod": "q", "node": "n9"},
    ]

    assert [{"pod": "p", "node": "n1"}, {"pod": "q", "node": ""}] == original_labels(moved)
    assert [{"pod": "p", "node": "n1"}] == original_labels([{"pod": "p", "node": "n1"}])


@pytest.mark.parametrize(
    ("seen", "known"),
    [
        pytest.param([asks(node="n1")], facts(status_phase={"phase": "Pending"}), id="a pod that pulls its image"),
        pytest.param(
            [asks(node="n1")],
            facts(
                status_phase={"phase": "Pending"},
                start_time=T0,
                container_status_waiting_reason={"container": "c", "reason": "ContainerCreating"},
            ),
            id="a pod whose container is being created",
        ),
        pytest.param([asks(0, node="n1")], facts(container_state_started=T0), id="a pod that asks for none"),
        pytest.param([asks(node="n1", pod="")], facts(container_state_started=T0), id="a series without a pod"),
        pytest.param([asks(float("nan"), node="n1")], facts(container_state_started=T0), id="a count that is none"),
    ],
)
def test_what_is_no_claim(seen: list[SeriesSpan], known: Facts) -> None:
    assert [] == rows(seen, known)["claim"]


def test_a_pod_whose_image_cannot_be_pulled_holds_its_gpus_since_it_was_admitted() -> None:
    why = {"container": "c", "reason": "ImagePullBackOff"}
    (row,) = rows(
        [asks(node="n1")],
        facts(status_phase={"phase": "Pending"}, start_time=T0 + 5, container_status_waiting_reason=why),
    )["claim"]
    assert (T0 * S + 5 * S, None, "ImagePullBackOff") == (row["start_us"], row["end_us"], row["state"])

    week_facts = facts(
        status_phase={"phase": "Running"},
        start_time=T0 + 5,
        container_state_started=T0 + 90,
        container_status_waiting_reason=why,
    )
    assert [("Running", (T0 + 90) * S)] == [
        (row["state"], row["start_us"]) for row in rows([asks(node="n1")], week_facts)["claim"]
    ]


@pytest.mark.parametrize(
    ("last", "code", "restarts", "kept"),
    [
        pytest.param("Completed", 0, 40, None, id="a container that always succeeds"),
        pytest.param("Error", 1, 2, None, id="two restarts"),
        pytest.param("Error", 137, 40, "exit code 137", id="a code"),
        pytest.param("Error", None, 40, "Error", id="an error without a code"),
        pytest.param("OOMKilled", 137, 40, "OOMKilled", id="out of memory"),
    ],
)
def test_restarts_with_errors_are_kept(last: str, code: int | None, restarts: int, kept: str | None) -> None:
    why: Any = {"container": "c", "reason": "CrashLoopBackOff"}
    given: Any = {"container_status_restarts_total": restarts}
    if code is not None:
        given["container_status_last_terminated_exitcode"] = code
    known = facts(
        status_phase={"phase": "Running"},
        start_time=T0 + 5,
        container_status_waiting_reason=why,
        container_status_last_terminated_reason={"container": "c", "reason": last},
        **given,
    )
    [row] = rows([asks(node="n1", container="c")], known)["claim"]

    failures = json.loads(row["labels"] or "{}")
    assert (kept, str(restarts) if kept else None) == (
        failures.get("gpuwatch.io/last-exit"),
        failures.get("gpuwatch.io/restarts"),
    )
    assert ("CrashLoopBackOff", (T0 + 5) * S) == (row["state"], row["start_us"])


def test_a_claim_by_what_was_recorded() -> None:
    week_facts = facts(
        status_phase={"phase": "Succeeded"},
        container_state_started=T0 + 5,
        completion_time=T0 + 300,
        created=T0 - 60,
        owner={"owner_kind": "ReplicaSet", "owner_name": "web-7d9f8b6c5d", "owner_is_controller": "true"},
        labels={"label_kueue_x_k8s_io_queue_name": "q1", "label_app": "a"},
    )
    [row] = rows([asks(2, node="n1"), asks(1, node="n1", container="d")], week_facts)["claim"]

    assert ("lab/web", "u", "n1", 3, "q1") == tuple(
        row[n] for n in ("job_id", "run_key", "node", "device_count", "queue")
    )
    assert (T0 + 5, T0 + 300) == (row["start_us"] // S, row["end_us"] // S)
    assert {"app": "a", "kueue.x-k8s.io/queue-name": "q1"} == json.loads(row["labels"])


@pytest.mark.parametrize(
    ("labels", "run_key"),
    [
        pytest.param({"label_batch_kubernetes_io_controller_uid": "job-uid"}, "job-uid", id="by the UID in its labels"),
        pytest.param({}, "Job/lab/fit", id="by its name where no label tells a UID"),
    ],
)
def test_pods_of_a_job_are_one_run(labels: dict[str, str], run_key: str) -> None:
    owner = {"owner_kind": "Job", "owner_name": "fit", "owner_is_controller": "true"}
    [row] = rows([asks(node="n1")], facts(owner=owner, labels=labels, container_state_started=T0))["claim"]

    assert ("lab/fit", run_key) == (row["job_id"], row["run_key"])


def test_an_init_container_counts_when_it_asks_for_more() -> None:
    init = {"__name__": "kube_pod_init_container_resource_requests", "container": "i"}
    [row] = rows([asks(2, node="n1"), asks(4, node="n1", **init)], facts(container_state_started=T0))["claim"]

    assert 4 == row["device_count"]


def test_the_scheduler_s_word_counts_where_nothing_tells_of_containers() -> None:
    whole = {"__name__": "kube_pod_resource_request", "container": "", "resource": "nvidia.com/gpu"}

    assert [8] == [r["device_count"] for r in rows([asks(8, node="n1", **whole)], facts(start_time=T0))["claim"]]
    both = [asks(8, node="n1", **whole), asks(2, node="n1")]
    assert [2] == [r["device_count"] for r in rows(both, facts(start_time=T0))["claim"]]


def test_mig_slices_have_their_profile() -> None:
    [row] = rows([asks(2, node="n1", resource="nvidia_com_mig_1g_10gb")], facts(container_state_started=T0))["claim"]

    assert ("1g.10gb", 2) == (row["profile"], row["device_count"])


def test_a_pod_without_a_node_waits() -> None:
    [row] = rows([asks(4)], facts(created=T0 - 60, status_unschedulable={}), waiting=True)["pending"]

    assert ("lab/p", 4, "Unschedulable") == (row["job_id"], row["device_count"], row["reason"])
    assert (T0 - 60, T0 + 600) == (row["submit_us"] // S, row["evidence_us"] // S)


@pytest.mark.parametrize(
    ("last", "targets", "end"),
    [
        pytest.param(3600, {("a", ""): (0, 3600)}, None, id="told of until the end"),
        pytest.param(3400, {("a", ""): (0, 3600)}, None, id="not told of for three minutes"),
        pytest.param(3000, {("a", ""): (0, 3000)}, None, id="its target went silent with it"),
        pytest.param(3000, {("a", ""): (0, 3010), ("b", ""): (0, 7200)}, None, id="another shard went on"),
        pytest.param(3000, {("a", ""): (0, 3010), ("b", ""): (3060, 4000)}, None, id="a new one began not long ago"),
        pytest.param(3000, {("a", ""): (0, 3600)}, 3000, id="its target went on without it"),
        pytest.param(
            3000, {("a", ""): (0, 3010), ("b", ""): (3060, 7200)}, 3000, id="the one that replaced it went on"
        ),
    ],
)
def test_where_a_pod_ends(last: int, targets: dict[tuple[str, str], tuple[int, int]], end: int | None) -> None:
    pod = Pod("lab", "p", "u", "n1", 0, last * S, target=("a", ""))
    row = {"pod_uid": "u", "run_key": "u", "start_us": 10 * S, "end_us": None, "evidence_us": 10 * S, "submit_us": None}
    spans = {key: (first * S, until * S) for key, (first, until) in targets.items()}
    [found] = close_claims([row], {"u": pod}, spans)

    assert (end, last, "ksm") == (found["end_us"] and found["end_us"] // S, found["evidence_us"] // S, found["kind"])


@pytest.mark.parametrize(
    ("ready", "cordoned", "expected"),
    [
        pytest.param([1, 1, 1], None, [(0, True, False, None), (2, True, False, None)], id="always ready"),
        pytest.param(
            [1, 0, 0, 1],
            None,
            [(0, True, False, None), (1, False, False, 1), (3, True, False, 3)],
            id="down for a while",
        ),
        pytest.param([1, 1], [0, 1], [(0, True, False, None), (1, True, True, 1)], id="cordoned"),
        pytest.param(None, None, [(9, None, False, None)], id="nothing tells"),
    ],
)
def test_changes_of_a_node(ready: list[int] | None, cordoned: list[int] | None, expected: list[Any]) -> None:
    def arrays(states: list[int] | None) -> Any:
        return None if states is None else (np.arange(len(states), dtype=np.int64), np.array(states, np.float64))

    assert expected == node_states(arrays(ready), arrays(cordoned), 9)


def test_a_node_by_what_was_recorded() -> None:
    record = {
        "kube_node_status_capacity": [
            ({"resource": "nvidia_com_gpu"}, 0.0),
            ({"resource": "nvidia_com_mig_1g_10gb"}, 7.0),
        ],
        "kube_node_labels": [({"label_nvidia_com_gpu_product": "NVIDIA-H100-80GB-HBM3"}, 1.0)],
    }
    reader = ObjectReader(T0 * S)
    reader.take(node_object("n1", record, ready=False, cordoned=False, since_us=T0 * S))
    reader.finish()
    [row] = reader.tables["node"]

    assert ("down", T0 * S, '{"1g.10gb":7}', "NVIDIA-H100-80GB-HBM3") == tuple(
        row[name] for name in ("state", "since_us", "devices", "gpu_model")
    )


def test_a_quota_by_what_was_recorded() -> None:
    own = {"namespace": "lab", "resourcequota": "g", "resource": "requests.nvidia.com/gpu"}
    [item] = quota_objects([(own | {"type": "hard"}, 8.0), (own | {"type": "used"}, 3.0)])
    reader = ObjectReader(T0 * S)
    reader.take(item)
    [row] = reader.tables["queue"]

    assert ("resource_quota", "g", '{"":8}', '{"":3}') == tuple(row[n] for n in ("kind", "name", "quota_max", "used"))


def test_the_team_of_a_namespace_is_its_newest_label() -> None:
    def seen(namespace: str, team: str, last: int) -> SeriesSpan:
        return SeriesSpan({"namespace": namespace, "label_gpuwatch_io_team": team}, 1.0, T0 * S, (T0 + last) * S)

    reader = ObjectReader(T0 * S)
    found = namespace_objects([seen("lab", "new", 60), seen("lab", "old", 30), seen("", "x", 9), seen("cv", "", 9)])
    for item in found:
        reader.take(item)
    rows = [(row["kind"], row["name"], row["state"], row["detail"]) for row in reader.tables["queue"]]

    assert [("namespace", "lab", "Active", '{"team":"new"}')] == rows


def test_only_news_is_written_and_one_sign_of_life() -> None:
    claim = {
        "pod_uid": "u",
        "run_key": "u",
        "node": "n1",
        "profile": None,
        "start_us": 1,
        "end_us": None,
        "evidence_us": 5,
    }
    book = KsmChanges([claim | {"pod_uid": "old", "kind": "ksm"}, claim | {"pod_uid": "theirs", "kind": "k8s-json"}])

    def news(at_us: int, evidence_us: int, **more: Any) -> list[tuple[Any, ...]]:
        result = SpanRecords({"claim": [claim | {"evidence_us": evidence_us} | more]}, {"u"}, 0, Rejects(), [])
        return [
            (r["pod_uid"], r["end_us"], r["evidence_us"])
            for r in book.changed_rows(result, at_us, True).get("claim", [])
        ]

    assert 5 == book.newest_us
    assert [("u", None, 6), ("old", 5, 5)] == news(10, 6)
    assert [("u", None, 7)] == news(11, 7)
    assert [("u", 8, 8)] == news(12, 8, end_us=8)
    assert [] == news(13, 8, end_us=8)


@pytest.mark.skipif(not WIRE.exists(), reason=f"no {WIRE}")
def test_recorded_text_of_kube_state_metrics() -> None:
    series = re.compile(r"(\w+)\{(.*)\} (\S+)")
    seen, capacity = [], []
    for name in ("ksm_pod.prom", "ksm_node.prom"):
        for line in (WIRE / name).read_text().splitlines():
            if match := series.fullmatch(line):
                labels = {"__name__": match[1]} | dict(re.findall(r'(\w+)="([^"]*)"', match[2]))
                if "nvidia" in labels.get("resource", ""):
                    own = match[1].startswith("kube_node")
                    (capacity if own else seen).append(SeriesSpan(labels, float(match[3]), T0 * S, T0 * S))
    pods = pods_of(one for one in seen if one.labels["__name__"].endswith("resource_requests"))
    node = {"kube_node_status_capacity": [(s.labels, s.value) for s in capacity if "capacity" in s.labels["__name__"]]}

    assert {"uid1": {"nvidia.com/gpu": 1}} == {uid: pod.requests[(False, "pod1_con1")] for uid, pod in pods.items()}
    assert ["", True] == [pods["uid1"].node, pods["uid1"].waited_us is not None]
    assert {"nvidia.com/gpu": 4} == node_object("127.0.0.1", node, True, False, None)["status"]["capacity"]


def test_numbers_and_labels_that_are_none_stop_nothing() -> None:
    def reply(path: str, query: dict[str, str]) -> tuple[int, dict[str, str], bytes]:
        value = {"metric": {"instance": "a"}, "value": [T0, "NaN"]}
        body = {"status": "success", "data": {"resultType": "vector", "result": [value]}}
        if query["query"].startswith("{"):
            body["data"] = {"resultType": "matrix", "result": [{"metric": {"pod": 1}, "values": [[T0, "1"]]}]}
        return 200, {}, json.dumps(body, separators=(",", ":")).encode()

    with serving(reply) as server:
        client = Client(Access(server.url))
        window = Window(QueryRunner(client), T0 * S, (T0 + 60) * S)
        targets = window.targets()
        with pytest.raises(UnreadableInput, match="labels"):
            window.series(("kube_pod_info",), "")
        client.close()

    assert {} == targets
