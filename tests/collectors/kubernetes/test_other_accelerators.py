"""Pods that request accelerators of other vendors: reported by kind and number, and not counted."""

from __future__ import annotations

import json
from typing import Any

import pytest

from gpuwatch.collectors.kubernetes.changes import ClusterChanges
from gpuwatch.collectors.kubernetes.feeds import Pods
from gpuwatch.collectors.kubernetes.files import parse_objects
from gpuwatch.collectors.push.events import Decoder
from gpuwatch.core.model import Rejects, Source

Item = dict[str, Any]


def pod(name: str, resource: str, where: str = "limits", init: bool = False, **others: str) -> Item:
    container = {"name": "x", "resources": {where: {resource: "1", **others}}}
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": name, "namespace": "ml", "uid": name, "creationTimestamp": "2026-11-02T08:00:00Z"},
        "spec": {"nodeName": "n1", "initContainers" if init else "containers": [container]},
        "status": {
            "phase": "Running",
            "containerStatuses": [{"state": {"running": {"startedAt": "2026-11-02T08:00:10Z"}}}],
        },
    }


def reason(family: str) -> str:
    return f"ignored: pod requests {family} devices, which are not counted yet"


def read(*pods: Item) -> tuple[dict[str, int], int]:
    """Reasons, and number of claims, of an import."""
    rejects = Rejects()
    tables = parse_objects(json.dumps({"kind": "List", "items": pods}), Source("pods.json", "c1"), rejects)
    return rejects.counts, len(tables["claim"])


RESOURCES = {
    "amd.com/gpu": "amd.com/gpu",
    "gpu.intel.com/i915": "gpu.intel.com",
    "gpu.intel.com/xe": "gpu.intel.com",
    "habana.ai/gaudi": "habana.ai/gaudi",
    "aws.amazon.com/neuron": "aws.amazon.com/neuron",
    "aws.amazon.com/neuroncore": "aws.amazon.com/neuron",
    "google.com/tpu": "google.com/tpu",
}


@pytest.mark.parametrize(("resource", "family"), RESOURCES.items(), ids=RESOURCES)
def test_an_import_reports_how_many_pods_request_which_kind(resource: str, family: str) -> None:
    assert ({reason(family): 2}, 0) == read(pod("a", resource), pod("b", resource, "requests", init=True))


def test_two_resources_of_one_family_are_one_pod() -> None:
    assert ({reason("gpu.intel.com"): 1}, 0) == read(pod("a", "gpu.intel.com/i915", **{"gpu.intel.com/tiles": "2"}))


def test_a_pod_with_nvidia_gpus_too_is_counted_for_those() -> None:
    assert ({reason("amd.com/gpu"): 1}, 1) == read(pod("a", "nvidia.com/gpu", **{"amd.com/gpu": "1"}))


@pytest.mark.parametrize("resource", ["cpu", "nvidia.com/gpu", "example.com/amd.com-gpu"])
def test_other_resources_are_not_reported(resource: str) -> None:
    assert {} == read(pod("a", resource))[0]


def test_the_live_source_reports_each_pod_once() -> None:
    changes = ClusterChanges()
    feed = Pods(changes)
    for at_us in (1, 2):
        feed.take(pod("a", "amd.com/gpu"), at_us)
    feed.take(pod("b", "amd.com/gpu"), 3)

    assert {reason("amd.com/gpu"): 2} == changes.outbox.take_rejects().counts


def test_the_push_receiver_reports_them() -> None:
    rejects = Rejects()
    body = json.dumps([pod("a", "google.com/tpu"), {"type": "ADDED", "object": pod("b", "google.com/tpu")}])
    Decoder()(body.encode(), "application/json", "c1", 1_793_700_000_000_000, rejects)

    assert {reason("google.com/tpu"): 2} == rejects.counts
