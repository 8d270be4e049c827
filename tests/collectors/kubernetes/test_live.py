"""The live Kubernetes source without a server: what is news, what ends, and which options are wrong."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from gpuwatch.collectors.kubernetes.access import access_options
from gpuwatch.collectors.kubernetes.changes import ClusterChanges
from gpuwatch.collectors.kubernetes.client import _fix
from gpuwatch.collectors.kubernetes.feeds import Pods
from gpuwatch.collectors.kubernetes.source import all_watches, configure, selected_kinds
from gpuwatch.collectors.shared.json_fields import Malformed
from gpuwatch.collectors.shared.live_options import Options
from gpuwatch.core.clock import HOUR_US, SECOND_US, rfc3339

T0_US = 1_793_577_600_000_000
Json = dict[str, Any]


def us(seconds: float) -> int:
    return T0_US + round(seconds * SECOND_US)


def pod(name: str = "a", *, bound: bool = True, resource: str = "nvidia.com/gpu", count: int = 1, **words: Any) -> Json:
    """A pod that runs on n1 since 0, or waits for its GPUs."""
    began = rfc3339(T0_US)
    status: Json = {"phase": "Pending"}
    if bound:
        state = {"running": {"startedAt": began}}
        status = {"phase": "Running", "containerStatuses": [{"name": "m", "state": state}]}
    named = {"namespace": "lab", "name": name, "uid": f"uid-{name}", "creationTimestamp": began}
    containers = [{"name": "m", "resources": {"limits": {resource: str(count)}}}]
    return {
        "metadata": named | words,
        "spec": {"containers": containers} | ({"nodeName": "n1"} if bound else {}),
        "status": status,
    }


def node(name: str = "n1", ready: str = "True", **labels: str) -> Json:
    conditions = [{"type": "Ready", "status": ready, "lastTransitionTime": rfc3339(T0_US)}]
    named = {key.replace("__", "/").replace("_", "."): value for key, value in labels.items()}
    return {
        "metadata": {"name": name, "labels": named},
        "status": {"capacity": {"nvidia.com/gpu": "8"}, "conditions": conditions},
    }


def gang(name: str, job: str = "train", bound: bool = False) -> Json:
    owner = {"kind": "Job", "name": job, "uid": f"uid-{job}", "controller": True}
    return pod(name, bound=bound, count=4, ownerReferences=[owner])


def news(book: ClusterChanges, at: float, table: str) -> list[Json]:
    return book.take(us(at)).get(table, [])


def test_a_pod_that_does_not_change_is_written_once() -> None:
    book = ClusterChanges()
    for _ in range(3):
        assert "uid-a" == book.pod(pod(), us(0))

    assert 1 == len(news(book, 0, "claim"))

    book.pod(pod(labels={"team": "vision"}), us(60))

    assert ['{"team":"vision"}'] == [row["labels"] for row in news(book, 60, "claim")]


def test_what_the_store_has_is_not_written_again_after_a_restart() -> None:
    first = ClusterChanges()
    first.pod(pod(), us(0))
    stored = [row | {"cluster": "c1", "account": None} for row in news(first, 0, "claim")]
    book = ClusterChanges()

    assert us(0) == book.remember(stored)

    book.pod(pod(), us(500))

    assert [] == news(book, 500, "claim")


def test_a_list_of_one_namespace_ends_nothing_in_another() -> None:
    book = ClusterChanges()
    book.pod(pod("a"), us(0))
    book.pod(pod("b", namespace="sales"), us(0))
    book.take(us(0))
    book.pods_listed(set(), us(90), us(100), "lab")

    assert [("a", us(90))] == [(row["pod"], row["end_us"]) for row in news(book, 100, "claim")]


@pytest.mark.parametrize(
    ("alive", "expected"),
    [
        pytest.param(us(40), us(40), id="when it was last known alive"),
        pytest.param(None, us(100), id="at the list, where nothing is known"),
        pytest.param(us(120), us(100), id="never after the list"),
        pytest.param(us(-50), us(0), id="never before it began"),
    ],
)
def test_a_pod_that_a_list_does_not_have_ends(alive: int | None, expected: int) -> None:
    book = ClusterChanges()
    book.pod(pod(), us(0))
    book.take(us(0))
    book.pods_listed(set(), alive, us(100), None)

    assert [expected] == [row["end_us"] for row in news(book, 100, "claim")]


def test_a_pod_that_ended_before_it_was_deleted_keeps_its_end() -> None:
    over = pod()
    done = {"terminated": {"startedAt": rfc3339(T0_US), "finishedAt": rfc3339(us(30))}}
    over["status"] = {"phase": "Succeeded", "containerStatuses": [{"name": "m", "state": done}]}
    book = ClusterChanges()
    book.pod(over, us(0))

    assert [us(30)] == [row["end_us"] for row in news(book, 40, "claim")]

    book.pod_deleted(over, us(80), us(90))

    assert [] == news(book, 90, "claim")


def test_the_last_word_about_what_runs_moves_to_another_pod_when_its_own_ends() -> None:
    """After a restart only open claims are known: one of them must carry the newest evidence."""
    book = ClusterChanges()
    for name in ("a", "b"):
        book.pod(pod(name), us(0))
    book.take(us(0))
    book.heartbeat(us(60))
    first = [row["pod"] for row in news(book, 60, "claim")]
    book.heartbeat(us(90))

    assert [] == news(book, 90, "claim")

    book.pod_deleted(pod(first[0]), us(95), us(100))
    book.heartbeat(us(95))
    rows = news(book, 100, "claim")

    assert [us(95), None] == [row["end_us"] for row in rows]
    assert {"a", "b"} == {rows[0]["pod"], rows[1]["pod"]}
    assert us(95) == rows[1]["evidence_us"]


def test_a_node_whose_gpus_are_cut_gives_its_pods_their_profile_and_keeps_it() -> None:
    """Labelled anew, the node must not make a second claim of a pod that runs."""
    book = ClusterChanges()
    book.node(node(nvidia_com__gpu_product="NVIDIA-A100-MIG-1g.10gb"), us(0))
    book.pod(pod(), us(0))
    book.node(node(), us(60))
    book.pod(pod(labels={"a": "b"}), us(60))

    assert ["1g.10gb", "1g.10gb"] == [row["profile"] for row in news(book, 60, "claim")]


def test_a_gang_waits_as_one_request() -> None:
    book = ClusterChanges()
    for name in ("w0", "w1"):
        book.pod(gang(name), us(0))

    assert [("lab/train", 8, us(5))] == [
        (r["job_id"], r["device_count"], r["evidence_us"]) for r in news(book, 5, "pending")
    ]

    book.pod(gang("w0"), us(10))

    assert [] == news(book, 10, "pending")

    book.pod(gang("w0", bound=True), us(20))

    assert [4] == [row["device_count"] for row in news(book, 20, "pending")]

    book.pod_deleted(gang("w1"), us(25), us(30))

    assert [(4, us(30))] == [(row["device_count"], row["evidence_us"]) for row in news(book, 30, "pending")]
    assert [] == news(book, 30 + HOUR_US, "pending"), "who waits no more is not heard of again"


def test_nodes_are_reported_when_they_change_hourly_and_when_they_go() -> None:
    book, listed = ClusterChanges(), []
    for at, ready in ((0, "True"), (60, "True"), (120, "False"), (3800, "False")):
        book.node(node(ready=ready), us(at))
        listed.append([row["state"] for row in news(book, at, "node")])
    book.nodes_listed(set(), us(4000))
    gone = news(book, 4000, "node")

    assert [["up"], [], ["down"], ["down"]] == listed
    assert [("down", us(4000), "deleted from the cluster")] == [(r["state"], r["since_us"], r["reason"]) for r in gone]


def test_events_are_kept_of_pods_and_nodes_with_gpus_only_and_once() -> None:
    def event(kind: str, name: str, count: int = 1) -> Json:
        about = {"kind": kind, "namespace": "lab", "name": name}
        return {
            "metadata": {"uid": f"e-{name}"},
            "involvedObject": about,
            "count": count,
            "lastTimestamp": rfc3339(us(count)),
            "reason": "Failed",
        }

    book = ClusterChanges()
    book.pod(pod("a"), us(0))
    book.node(node(), us(0))
    for item in (event("Pod", "a"), event("Pod", "web"), event("Node", "n1"), event("Pod", "a"), event("Pod", "a", 2)):
        book.event(item)

    assert [("a", 1), ("n1", 1), ("a", 2)] == [(row["name"], row["count"]) for row in news(book, 9, "event")]


def test_what_cannot_be_read_is_counted_once_per_object() -> None:
    book = ClusterChanges()
    dra = pod(resource="cpu")
    dra["spec"]["resourceClaims"] = [{"name": "gpu"}]
    for _ in range(3):
        assert book.pod(dra, us(0)) is None

    assert [1] == list(book.outbox.rejects.counts.values())
    assert {} == book.take(us(0))


@pytest.mark.parametrize(
    ("item", "reason"),
    [
        pytest.param({}, "metadata has no name and no uid and no namespace", id="nothing at all"),
        pytest.param(pod(uid=""), "metadata has no uid", id="no uid"),
        pytest.param(pod() | {"spec": {}}, "has no spec", id="no word of what it asks for"),
    ],
)
def test_a_pod_that_nothing_identifies_is_malformed(item: Json, reason: str) -> None:
    """A whole one without GPUs is not."""
    pods = Pods(ClusterChanges())
    assert "uid-a" == pods.take(pod(count=0), us(0))

    with pytest.raises(Malformed, match=f"^{reason}$"):
        pods.take(item, us(0))


def test_a_pod_that_went_need_not_be_whole() -> None:
    book = ClusterChanges()
    pods = Pods(book)
    pods.take(pod(), us(0))
    pods.deleted({"metadata": {"uid": "uid-a"}}, us(5), us(5))

    assert [None, us(5)] == [row["end_us"] for row in news(book, 5, "claim")]
    with pytest.raises(Malformed, match="metadata has no uid"):
        pods.deleted({"metadata": {}}, us(5), us(5))


# Options -----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("table", "problem"),
    [
        pytest.param(
            {}, "server: is missing, and this process does not run in a pod", id="no server outside a cluster"
        ),
        pytest.param({"server": "k8s.example"}, "server: must be http(s)://", id="a name alone"),
        pytest.param({"server": "https://ann:pw@k8s"}, "server: must be http(s)://", id="a password in the URL"),
        pytest.param({"server": "https://k8s:port"}, "server: must be http(s)://", id="a port that is none"),
        pytest.param({"server": "https://k8s", "ca_file": "/nowhere"}, "ca_file: there is no file", id="no such CA"),
        pytest.param({"server": "https://k8s", "namespaces": "lab"}, "namespaces: must be a list", id="not a list"),
        pytest.param({"server": "https://k8s", "pagesize": 5}, "pagesize: is not an option", id="a misspelt option"),
        pytest.param(
            {"server": "https://k8s", "kinds": ["Secret"]}, "kinds: 'Secret' is not supported", id="an unknown kind"
        ),
        pytest.param({"server": "https://k8s", "page_size": 0}, "page_size: must be a number", id="pages of nothing"),
    ],
)
def test_a_wrong_option_names_itself(table: Json, problem: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("KUBERNETES_SERVICE_HOST", raising=False)
    problems: list[str] = []
    configure([table], problems)

    assert [f"[[kubernetes]] 1 {problem}"] == [text[: len(problem) + 17] for text in problems]


def test_a_token_is_not_sent_in_the_clear(tmp_path: Path) -> None:
    token = tmp_path / "token"
    token.write_text("secret")
    problems: list[str] = []
    configure([{"server": "http://k8s.example", "bearer_token_file": str(token)}], problems)

    assert ["[[kubernetes]] 1 server: is http: a token would be sent in the clear; use https"] == problems


def test_within_a_cluster_nothing_needs_to_be_set() -> None:
    problems: list[str] = []
    access = access_options(
        Options({}, "t", problems), {"KUBERNETES_SERVICE_HOST": "fd00::1", "KUBERNETES_SERVICE_PORT": "6443"}
    )

    assert [] == problems
    assert "https://[fd00::1]:6443" == access.server
    assert access.token_file.endswith("/serviceaccount/token")


FOUND = {
    ("resource.k8s.io", "resourceslices"): "v1",
    ("resource.k8s.io", "resourceclaims"): "v1beta1",
    ("batch", "jobs"): "v1",
    ("scheduling.k8s.io", "priorityclasses"): "v1",
}
DRA, LAB = "/apis/resource.k8s.io", "/api/v1/namespaces/lab"


def test_each_kind_waits_for_what_its_objects_mean() -> None:
    """Slices before nodes, nodes and claims before pods, pods before events; queues and jobs wait for nothing."""
    every = all_watches(ClusterChanges(), ("lab",), True, True, FOUND)

    assert {
        f"{DRA}/v1/resourceslices": set(),
        f"{DRA}/v1beta1/namespaces/lab/resourceclaims": set(),
        "/apis/batch/v1/namespaces/lab/jobs": set(),
        "/apis/scheduling.k8s.io/v1/priorityclasses": set(),
        "/api/v1/nodes": {f"{DRA}/v1/resourceslices"},
        f"{LAB}/pods": {
            "/api/v1/nodes",
            f"{DRA}/v1/resourceslices",
            f"{DRA}/v1beta1/namespaces/lab/resourceclaims",
        },
        f"{LAB}/events": {f"{LAB}/pods"},
    } == {w.path: {before.path for before in w.after} for w in every}


def test_each_namespace_has_its_own_watches() -> None:
    paths = [w.path for w in all_watches(ClusterChanges(), ("lab", "dev"), False, False, {("batch", "jobs"): "v1"})]

    assert [
        "/apis/batch/v1/namespaces/lab/jobs",
        "/apis/batch/v1/namespaces/dev/jobs",
        "/api/v1/namespaces/lab/pods",
        "/api/v1/namespaces/dev/pods",
    ] == paths


@pytest.mark.parametrize(
    ("names", "expected"),
    [
        pytest.param(["none"], set(), id="nothing but pods, nodes and events"),
        pytest.param(["PyTorchJob"], {"pytorchjobs.kubeflow.org"}, id="by kind"),
        pytest.param(["resourcequotas"], {"resourcequotas"}, id="by plural of the core group"),
        pytest.param(["jobs.batch"], {"jobs.batch"}, id="by plural and group, as kubectl names it"),
    ],
)
def test_kinds_can_be_chosen(names: list[str], expected: set[str]) -> None:
    problems: list[str] = []

    assert expected == selected_kinds(Options({"kinds": names}, "t", problems))
    assert [] == problems


def test_the_rule_that_is_missing_is_named_where_it_belongs() -> None:
    assert 'a Role in namespace lab with the rule apiGroups: [""], resources: ["pods"]' in _fix(
        403, "/api/v1/namespaces/lab/pods"
    )
    assert 'a ClusterRole with the rule apiGroups: [""], resources: ["nodes"]' in _fix(403, "/api/v1/nodes")
    assert 'a ClusterRole with the rule apiGroups: ["kueue.x-k8s.io"], resources: ["workloads"]' in _fix(
        403, "/apis/kueue.x-k8s.io/v1beta2/workloads"
    )
    assert 'a Role in namespace lab with the rule apiGroups: ["batch"], resources: ["jobs"]' in _fix(
        403, "/apis/batch/v1/namespaces/lab/jobs"
    )
    assert {"bind the ClusterRole system:discovery to this account"} == {
        _fix(403, path) for path in ("/apis", "/apis/batch/v1", "/api/v1")
    }
