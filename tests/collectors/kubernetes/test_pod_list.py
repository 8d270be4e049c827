"""What a file's pods show about those that it does not list."""

from __future__ import annotations

import pytest

from gpuwatch.collectors.kubernetes.files import PodList, Scope

A, B = "lab", "web"
ALL: Scope = {"namespace": None, "node": None}


@pytest.mark.parametrize(
    ("pods", "alone", "scope"),
    [
        pytest.param([], False, None, id="no pods"),
        pytest.param([(A, "n1", {}), (B, "n2", {})], True, ALL, id="all namespaces"),
        pytest.param([(A, "n1", {}), (B, "n1", {})], True, {"namespace": None, "node": "n1"}, id="one node"),
        pytest.param([(A, "n1", {}), (A, "n2", {})], True, {"namespace": A, "node": None}, id="one namespace"),
        pytest.param([(A, "n1", {}), (A, None, {})], True, {"namespace": A, "node": "n1"}, id="one of them waits"),
        pytest.param([(A, "n1", {})], True, None, id="one pod, perhaps by its name"),
        pytest.param([(A, "n1", {})], False, {"namespace": A, "node": "n1"}, id="one pod beside its node"),
        pytest.param([(A, "n1", {"a": "1"}), (B, "n2", {"a": "1", "b": "2"})], True, None, id="a label in common"),
        pytest.param([(A, "n1", {"a": "1"}), (B, "n2", {"a": "2"})], True, ALL, id="two values of a label"),
    ],
)
def test_the_scope_of_a_list(
    pods: list[tuple[str, str | None, dict[str, str]]], alone: bool, scope: Scope | None
) -> None:
    found = PodList()
    for namespace, node, labels in pods:
        metadata = {"name": "p", "namespace": namespace, "labels": labels}
        found.take({"metadata": metadata, "spec": {"nodeName": node} if node else {}})

    assert scope == found.scope(alone)


def test_a_list_with_a_pod_that_could_not_be_read_has_no_scope() -> None:
    found = PodList()
    for namespace in (A, B):
        found.take({"metadata": {"name": "p", "namespace": namespace}, "spec": {}})
    found.lacks("Event")
    assert found.scope(True) == ALL
    found.lacks("Pod")
    assert found.scope(True) is None
