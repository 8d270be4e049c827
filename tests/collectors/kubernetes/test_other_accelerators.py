"""Accelerators of other vendors: what pods hold and nodes have of each kind."""

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


def read(*items: Item) -> tuple[dict[str, int], dict[str, list[dict[str, Any]]]]:
    """Reasons and rows of an import."""
    rejects = Rejects()
    tables = parse_objects(json.dumps({"kind": "List", "items": items}), Source("pods.json", "c1"), rejects)
    return rejects.counts, tables


def held(*items: Item) -> list[tuple[str | None, str | None, int, float | None]]:
    return [
        (row["profile"], row.get("gpu_type"), row["device_count"], row.get("fraction"))
        for row in read(*items)[1]["claim"]
    ]


HELD = {
    "amd.com/gpu": ("amd.com/gpu", "AMD GPU"),
    "gpu.intel.com/i915": ("gpu.intel.com/gpu", "Intel GPU"),
    "gpu.intel.com/xe": ("gpu.intel.com/gpu", "Intel GPU"),
    "habana.ai/gaudi": ("habana.ai/gaudi", "Intel Gaudi"),
    "aws.amazon.com/neuron": ("aws.amazon.com/neuron", "AWS Neuron device"),
    "aws.amazon.com/neurondevice": ("aws.amazon.com/neuron", "AWS Neuron device"),
    "aws.amazon.com/neuroncore": ("aws.amazon.com/neuroncore", "AWS Neuron core"),
    "google.com/tpu": ("google.com/tpu", "Google TPU"),
}


@pytest.mark.parametrize(("resource", "words"), HELD.items(), ids=HELD)
def test_a_pod_holds_devices_of_its_kind(resource: str, words: tuple[str, str]) -> None:
    assert [(*words, 1, None)] * 2 == held(pod("a", resource), pod("b", resource, "requests", init=True))
    assert ({}, []) == (read(pod("a", resource))[0], read(pod("a", resource))[1]["pending"])


def waiting(name: str, resource: str, **others: str) -> Item:
    item = pod(name, resource, **others)
    item["spec"].pop("nodeName")
    return item | {"status": {"phase": "Pending"}}


def asked(row: dict[str, Any]) -> tuple[str | None, str | None, int]:
    return row["profile"], row["gpu_type"], row["device_count"]


WANTED = HELD | {"nvidia.com/gpu.shared": ("nvidia.com/gpu.shared", None)}


@pytest.mark.parametrize(("resource", "words"), WANTED.items(), ids=WANTED)
def test_a_pod_waits_for_devices_of_its_kind(resource: str, words: tuple[str, str | None]) -> None:
    """In a dump, by watching, and from a sender."""
    item = waiting("a", resource)
    changes = ClusterChanges()
    Pods(changes).take(item, 1)
    pushed = Decoder()(json.dumps([item]).encode(), "application/json", "c1", 1_793_700_000_000_000, Rejects())

    assert [(*words, 1)] == [asked(row) for row in read(item)[1]["pending"]]
    assert [(*words, 1)] == [asked(row) for row in changes.take(4)["pending"]]
    assert [(*words, 1)] == [
        asked(row) for batch in pushed if batch.table == "pending" for row in batch.rows.to_pylist()
    ]


def test_a_pod_that_waits_for_two_vendors_asks_for_both() -> None:
    tables = read(waiting("a", "amd.com/gpu", **{"nvidia.com/gpu": "2", "gpu.intel.com/millicores": "250"}))[1]

    assert [(None, None, 2), ("amd.com/gpu", "AMD GPU", 1)] == [asked(row) for row in tables["pending"]]


@pytest.mark.parametrize(
    ("resources", "expected"),
    [
        pytest.param({"gpu.intel.com/millicores": "250"}, [("gpu.intel.com/gpu", "Intel GPU", 1, 0.25)], id="a part"),
        pytest.param(
            {"gpu.intel.com/millicores": "1000"}, [("gpu.intel.com/gpu", "Intel GPU", 1, None)], id="all of it"
        ),
        pytest.param({"gpu.intel.com/tiles": "2"}, [("gpu.intel.com/gpu", "Intel GPU", 1, None)], id="tiles"),
        pytest.param(
            {"nvidia.com/gpu": "2"},
            [(None, None, 2, None), ("gpu.intel.com/gpu", "Intel GPU", 1, None)],
            id="two vendors",
        ),
    ],
)
def test_what_a_pod_holds(resources: dict[str, str], expected: list[Any]) -> None:
    assert expected == held(pod("a", "gpu.intel.com/i915", **resources))


@pytest.mark.parametrize(
    ("resource", "family"),
    [
        pytest.param("gpu.intel.com/tiles", "gpu.intel.com", id="tiles of no GPU"),
        pytest.param("amd.com/gpu-vf", "amd.com/gpu", id="another resource"),
    ],
)
def test_a_pod_that_names_no_device_is_reported(resource: str, family: str) -> None:
    counts, tables = read(pod("a", resource))

    assert ({f"ignored: pod requests {family} resources that name no device": 1}, []) == (counts, tables["claim"])


def machine(capacity: dict[str, str], **labels: str) -> Item:
    return {
        "apiVersion": "v1",
        "kind": "Node",
        "metadata": {"name": "n1", "labels": labels, "creationTimestamp": "2026-11-02T07:00:00Z"},
        "status": {"capacity": capacity, "conditions": [{"type": "Ready", "status": "True"}]},
    }


@pytest.mark.parametrize(
    ("node", "expected"),
    [
        pytest.param(
            machine({"amd.com/gpu": "8"}, **{"amd.com/gpu.product-name": "AMD_Instinct_MI300X_OAM"}),
            ({"amd.com/gpu": 8}, "AMD Instinct MI300X OAM", None),
            id="the model of a label",
        ),
        pytest.param(
            machine({"google.com/tpu": "4"}, **{"cloud.google.com/gke-tpu-accelerator": "tpu-v5p-slice"}),
            ({"google.com/tpu": 4}, "Google tpu-v5p-slice", None),
            id="a label without the vendor",
        ),
        pytest.param(machine({"habana.ai/gaudi": "8"}), ({"habana.ai/gaudi": 8}, "Intel Gaudi", None), id="no label"),
        pytest.param(
            machine(
                {"aws.amazon.com/neuron": "16", "aws.amazon.com/neurondevice": "16", "aws.amazon.com/neuroncore": "32"}
            ),
            ({"aws.amazon.com/neuron": 16}, "AWS Neuron device", 2),
            id="devices and cores are the same hardware",
        ),
        pytest.param(
            machine(
                {"gpu.intel.com/i915": "20", "gpu.intel.com/millicores": "2000", "gpu.intel.com/i915_monitoring": "1"}
            ),
            ({"gpu.intel.com/gpu": 2}, "Intel GPU", None),
            id="shared GPUs count once",
        ),
        pytest.param(
            machine({"nvidia.com/gpu": "2", "amd.com/gpu": "1"}, **{"nvidia.com/gpu.product": "NVIDIA-L4"}),
            ({"": 2, "amd.com/gpu": 1}, "NVIDIA-L4", None),
            id="two vendors",
        ),
    ],
)
def test_what_a_node_has(node: Item, expected: tuple[dict[str, int], str, int | None]) -> None:
    (row,) = read(node)[1]["node"]

    assert expected == (json.loads(row["devices"]), row["gpu_model"], row["replicas"])
    assert "none" == row["sharing"]


@pytest.mark.parametrize("resource", ["cpu", "nvidia.com/gpu", "example.com/amd.com-gpu"])
def test_other_resources_are_not_reported(resource: str) -> None:
    assert {} == read(pod("a", resource))[0]


def test_the_live_source_holds_each_pod_once() -> None:
    changes = ClusterChanges()
    feed = Pods(changes)
    for at_us in (1, 2):
        feed.take(pod("a", "amd.com/gpu"), at_us)
    feed.take(pod("b", "amd.com/gpu-vf"), 3)

    assert {
        "ignored: pod requests amd.com/gpu resources that name no device": 1
    } == changes.outbox.take_rejects().counts
    assert [("amd.com/gpu", 1)] == [(row["profile"], row["device_count"]) for row in changes.take(4)["claim"]]


def test_the_push_receiver_reads_them() -> None:
    rejects = Rejects()
    body = json.dumps([pod("a", "google.com/tpu"), {"type": "ADDED", "object": pod("b", "google.com/tpu")}])
    batches = Decoder()(body.encode(), "application/json", "c1", 1_793_700_000_000_000, rejects)
    claims = [row for batch in batches if batch.table == "claim" for row in batch.rows.to_pylist()]

    assert {} == rejects.counts
    assert [("google.com/tpu", 1)] * 2 == [(row["profile"], row["device_count"]) for row in claims]
