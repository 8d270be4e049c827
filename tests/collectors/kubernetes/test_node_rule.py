"""Which nodes a waiting pod may use and why it waits, as its own object says; the taints of a node."""

from __future__ import annotations

import json
from typing import Any

from gpuwatch.collectors.kubernetes.files import parse_objects
from gpuwatch.collectors.kubernetes.nodes import parse_node
from gpuwatch.core.model import Rejects, Source

MESSAGE = "0/4 nodes are available: 4 Insufficient nvidia.com/gpu."


def waiting(**spec: Any) -> dict[str, Any]:
    """The request of a pod that no node took."""
    condition = {"type": "PodScheduled", "status": "False", "reason": "Unschedulable", "message": MESSAGE}
    pod = {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": "p", "namespace": "lab", "uid": "u", "creationTimestamp": "2026-11-02T09:00:00Z"},
        "spec": {"containers": [{"resources": {"limits": {"nvidia.com/gpu": "8"}}}], **spec},
        "status": {"phase": "Pending", "conditions": [condition]},
    }
    [row] = parse_objects(json.dumps(pod), Source("pods.json", "c1"), Rejects())["pending"]
    return row


def test_selector_affinity_and_tolerations_are_kept() -> None:
    expression = {"key": "zone", "operator": "NotIn", "values": ["b"]}
    row = waiting(
        nodeSelector={"disk": "ssd"},
        affinity={
            "nodeAffinity": {
                "requiredDuringSchedulingIgnoredDuringExecution": {
                    "nodeSelectorTerms": [{"matchExpressions": [expression]}]
                }
            }
        },
        tolerations=[
            {"key": "gpu", "operator": "Exists"},
            {"key": "node.kubernetes.io/not-ready", "operator": "Exists"},
        ],
    )

    assert {
        "terms": [[["disk", "In", ["ssd"]], ["zone", "NotIn", ["b"]]]],
        "tolerations": [["gpu", "Exists", "", None]],
    } == json.loads(row["node_rule"])


def test_the_message_of_the_condition_is_kept_and_no_rule_is_none() -> None:
    row = waiting()

    assert (MESSAGE, None) == (row["message"], row.get("node_rule"))


def test_taints_that_keep_pods_away() -> None:
    taints = [
        {"key": "gpu", "value": "yes", "effect": "NoSchedule"},
        {"key": "soft", "effect": "PreferNoSchedule"},
        {"key": "node.kubernetes.io/unschedulable", "effect": "NoSchedule"},
    ]
    node = parse_node({"metadata": {"name": "n1"}, "spec": {"taints": taints}}, 1)

    assert [["gpu", "yes", "NoSchedule"]] == json.loads(node.row["taints"])
