"""Dynamic resource allocation: claims of pods, devices of slices, in files and as they come one by one."""

from __future__ import annotations

import json
import os
from itertools import permutations
from pathlib import Path
from typing import Any

import pytest
import yaml

from gpuwatch.collectors.kubernetes.allocations import Allocations
from gpuwatch.collectors.kubernetes.changes import ClusterChanges
from gpuwatch.collectors.kubernetes.dra import parse_claim, parse_slice
from gpuwatch.collectors.kubernetes.files import DRA_UNKNOWN, parse_objects
from gpuwatch.core.clock import SECOND_US, rfc3339
from gpuwatch.core.model import Rejects, Source

SHARED = Path(os.environ.get("GPUWATCH_SHARED", Path(__file__).parents[4] / "shared"))
T0_US = 1_793_577_600_000_000
API = "resource.k8s.io/"
A, B = "GPU-aaaaaaaa-0000-0000-0000-000000000001", "GPU-bbbbbbbb-0000-0000-0000-000000000002"
Json = dict[str, Any]


def us(seconds: float) -> int:
    return T0_US + round(seconds * SECOND_US)


def gpu(name: str, uuid: str) -> Json:
    record = {"type": "gpu", "uuid": uuid, "productName": "NVIDIA H100 80GB HBM3"}
    return {"name": name, "attributes": {key: {"string": value} for key, value in record.items()}}


def mig(name: str, parent: str, profile: str = "1g.10gb") -> Json:
    record = {"type": "mig", "uuid": "MIG-" + parent[4:], "parentUUID": parent, "profile": profile}
    return {"name": name, "attributes": {key: {"string": value} for key, value in record.items()}}


def resource_slice(*devices: Json, version: str = "v1", node: str = "n1", generation: int = 1, **spec: Any) -> Json:
    if version in ("v1beta1", "v1alpha3"):
        devices = tuple({"name": d["name"], "basic": {"attributes": d["attributes"]}} for d in devices)
    record = {"driver": "gpu.nvidia.com", "nodeName": node, "pool": {"name": node, "generation": generation}}
    return {
        "apiVersion": API + version,
        "kind": "ResourceSlice",
        "metadata": {"name": f"{node}-{generation}", "uid": f"s-{node}-{generation}"},
        "spec": record | {"devices": list(devices)} | spec,
    }


def claim(
    name: str,
    *devices: str,
    pods: tuple[str, ...] = ("a",),
    version: str = "v1",
    request: Json | None = None,
    **result: Any,
) -> Json:
    """A claim that was given these devices of n1 for these pods; nothing is allocated where no device is named."""
    asked = request or {"deviceClassName": "gpu.nvidia.com"}
    wanted = {"name": "r", "exactly": asked} if version in ("v1", "v1beta2") else {"name": "r"} | asked
    drawn = {"request": "r", "driver": "gpu.nvidia.com", "pool": "n1"} | result
    results = [drawn | {"device": device} for device in devices]
    status: Json = {}
    if devices:
        reserved = [{"resource": "pods", "name": pod, "uid": f"uid-{pod}"} for pod in pods]
        status = {"allocation": {"devices": {"results": results}}, "reservedFor": reserved}
    return {
        "apiVersion": API + version,
        "kind": "ResourceClaim",
        "metadata": {"namespace": "lab", "name": name, "uid": f"c-{name}"},
        "spec": {"devices": {"requests": [wanted]}},
        "status": status,
    }


def pod(
    name: str = "a", *claims: str, bound: bool = True, end: float | None = None, plugin: int = 0, **status: Any
) -> Json:
    """A pod that names claims and runs on n1 since 0."""
    state: Json = {"running": {"startedAt": rfc3339(T0_US)}}
    if end is not None:
        state = {"terminated": {"startedAt": rfc3339(T0_US), "finishedAt": rfc3339(us(end))}}
    phase = "Pending" if not bound else "Running" if end is None else "Succeeded"
    record: Json = {"phase": phase} | ({"containerStatuses": [{"name": "m", "state": state}]} if bound else {})
    limits = {"nvidia.com/gpu": str(plugin)} if plugin else {}
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"namespace": "lab", "name": name, "uid": f"uid-{name}", "creationTimestamp": rfc3339(T0_US)},
        "spec": {
            "containers": [{"name": "m", "resources": {"limits": limits}}],
            "resourceClaims": [{"name": c, "resourceClaimName": c} for c in claims],
        }
        | ({"nodeName": "n1"} if bound else {}),
        "status": record | status,
    }


def imported(*items: Json) -> tuple[dict[str, list[Json]], Rejects]:
    rejects = Rejects()
    return parse_objects(json.dumps({"kind": "List", "items": list(items)}), Source("k.json", "c1"), rejects), rejects


def with_devices(tables: dict[str, list[Json]]) -> list[Json]:
    """Claim rows without those that have only the times of a pod."""
    return [row for row in tables["claim"] if row["device_count"]]


def held(*items: Json) -> list[tuple[str, str | None, int, str | None]]:
    tables, _ = imported(*items)
    return [(row["pod"], row["profile"], row["device_count"], row["gpus"]) for row in tables["claim"]]


# What must not be held ------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "made",
    [
        pytest.param(claim("c"), id="a claim that nothing was allocated to"),
        pytest.param(claim("c", "gpu-0", pods=()), id="a claim that is reserved for nobody"),
        pytest.param(claim("c", "gpu-0", pods=("b",)), id="a claim that is reserved for another pod"),
        pytest.param(claim("c", "gpu-0", driver="dra.example.com"), id="a device of another driver: a network card"),
        pytest.param(claim("c", "gpu-0", driver="compute-domain.nvidia.com"), id="an IMEX channel is no GPU"),
        pytest.param(claim("c", "gpu-0", adminAccess=True), id="access for administration holds nothing"),
    ],
)
def test_nothing_is_held(made: Json) -> None:
    tables, rejects = imported(pod("a", "c"), made, resource_slice(gpu("gpu-0", A)))

    assert [] == with_devices(tables)
    assert {} == rejects.counts


def test_a_claim_that_was_not_dumped_is_unknown() -> None:
    tables, rejects = imported(pod("a", "c"))

    assert [] == with_devices(tables) + tables["pending"]
    assert {DRA_UNKNOWN: 1} == rejects.counts
    assert "lab/a: ResourceClaim c is not known" == next(iter(rejects.first.values()))[2]


def test_a_slice_of_unknown_size_is_not_taken_for_a_gpu() -> None:
    tables, rejects = imported(
        pod("a", "c"), claim("c", "gpu-0-mig-19-4-1", request={"deviceClassName": "mig.nvidia.com"})
    )

    assert [] == with_devices(tables)
    assert [DRA_UNKNOWN] == list(rejects.counts)


# What is held --------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("version", ["v1", "v1beta2", "v1beta1", "v1alpha3"])
def test_every_version_tells_the_same(version: str) -> None:
    items = (
        pod("a", "c"),
        claim("c", "gpu-1", version=version),
        resource_slice(gpu("gpu-0", A), gpu("gpu-1", B), version=version),
    )

    assert [("a", None, 1, B)] == held(*items)


@pytest.mark.parametrize(
    ("items", "expected"),
    [
        pytest.param(
            (pod("a", "c"), claim("c", "gpu-0")), [("a", None, 1, None)], id="without slices the number is known"
        ),
        pytest.param(
            (pod("a", "c"), claim("c", "m0", "m1"), resource_slice(mig("m0", A), mig("m1", A))),
            [("a", "1g.10gb", 2, f"{A},{A}")],
            id="two MIG slices of one GPU name it twice",
        ),
        pytest.param(
            (pod("a", "c"), claim("c", "m0", "m1"), resource_slice(mig("m0", A), mig("m1", B, "3g.40gb"))),
            [("a", "1g.10gb", 1, A), ("a", "3g.40gb", 1, B)],
            id="a row a profile",
        ),
        pytest.param(
            (
                pod("a", "c"),
                claim(
                    "c",
                    "gpu-0-mig-19-4-1",
                    request={
                        "deviceClassName": "mig.nvidia.com",
                        "selectors": [
                            {"cel": {"expression": "device.attributes['gpu.nvidia.com'].profile == '1g.10gb'"}}
                        ],
                    },
                ),
            ),
            [("a", "1g.10gb", 1, None)],
            id="without slices the request tells the profile",
        ),
        pytest.param(
            (
                pod("a", "c", "d"),
                claim("c", "gpu-0"),
                claim("d", "gpu-1"),
                resource_slice(gpu("gpu-0", A), gpu("gpu-1", B)),
            ),
            [("a", None, 2, f"{A},{B}")],
            id="two claims of a pod add up",
        ),
        pytest.param(
            (pod("a", "c", plugin=2), claim("c", "gpu-0"), resource_slice(gpu("gpu-0", A))),
            [("a", None, 3, None)],
            id="devices of the plugin and of claims add up",
        ),
        pytest.param(
            (pod("a", "c"), pod("b", "c"), claim("c", "gpu-0", pods=("a", "b")), resource_slice(gpu("gpu-0", A))),
            [("a", None, 1, A), ("b", None, 1, A)],
            id="a shared claim is held by each of its pods",
        ),
        pytest.param(
            (pod("a", "nic", plugin=2), claim("nic", "eth0", driver="dra.example.com")),
            [("a", None, 2, None)],
            id="a claim for a network card changes nothing",
        ),
        pytest.param(
            (
                pod("a", "c"),
                claim("c", "gpu-0"),
                resource_slice(gpu("gpu-0", A), generation=1),
                resource_slice(gpu("gpu-0", B), generation=2),
            ),
            [("a", None, 1, B)],
            id="the newest generation of a pool counts",
        ),
        pytest.param(
            (
                pod(
                    "a",
                    plugin=1,
                    extendedResourceClaimStatus={
                        "resourceClaimName": "x",
                        "requestMappings": [
                            {"containerName": "m", "resourceName": "nvidia.com/gpu", "requestName": "r"}
                        ],
                    },
                ),
                claim("x", "gpu-0"),
                resource_slice(gpu("gpu-0", A)),
            ),
            [("a", None, 1, A)],
            id="a claim behind nvidia.com/gpu is not counted twice",
        ),
        pytest.param(
            (
                pod("a", resourceClaimStatuses=[{"name": "g", "resourceClaimName": "a-g-x7"}])
                | {"spec": {"nodeName": "n1", "resourceClaims": [{"name": "g", "resourceClaimTemplateName": "t"}]}},
                claim("a-g-x7", "gpu-0"),
                resource_slice(gpu("gpu-0", A)),
            ),
            [("a", None, 1, A)],
            id="a claim made from a template is named in the pod's status",
        ),
    ],
)
def test_devices(items: tuple[Json, ...], expected: list[tuple[str, str | None, int, str | None]]) -> None:

    assert expected == held(*items)


def test_claims_of_dra_differ_from_those_of_the_device_plugin() -> None:
    """Pods that name one device of a claim share it; pods that the plugin gave one device are in conflict."""
    tables, _ = imported(pod("a", "c"), pod("b", plugin=1), claim("c", "gpu-0"), resource_slice(gpu("gpu-0", A)))

    assert {"a": "dra", "b": "k8s-json"} == {row["pod"]: row["kind"] for row in tables["claim"]}


@pytest.mark.parametrize(
    ("request_", "expected"),
    [
        pytest.param({"deviceClassName": "gpu.nvidia.com", "count": 4}, [(None, 4)], id="so many GPUs"),
        pytest.param({"deviceClassName": "nic.example.com"}, [], id="no GPUs"),
        pytest.param(
            {"deviceClassName": "gpu.nvidia.com", "allocationMode": "All"}, [], id="all of them: nobody knows how many"
        ),
        pytest.param({"deviceClassName": "mig.nvidia.com"}, [], id="a slice of any size"),
    ],
)
def test_a_pod_that_waits_asks_for_what_its_claims_ask_for(
    request_: Json, expected: list[tuple[str | None, int]]
) -> None:
    tables, rejects = imported(pod("a", "c", bound=False), claim("c", request=request_))

    assert expected == [(row["profile"], row["device_count"]) for row in tables["pending"]]
    assert {} == rejects.counts


def test_of_alternatives_the_first_is_asked_for() -> None:
    either = {
        "name": "r",
        "firstAvailable": [{"name": "big", "deviceClassName": "gpu.nvidia.com", "count": 8}, {"name": "small"}],
    }
    made = claim("c") | {"spec": {"devices": {"requests": [either]}}}

    assert [8] == [devices.count for devices in parse_claim(made).requested]


# Inventory: an exporter in DRA mode may drop GPUs that nobody holds (peers.md, trap 13) --------------------------------


def nodes_of(*items: Json) -> list[tuple[str, Json, str | None]]:
    tables, _ = imported(*items)
    return [(row["node"], json.loads(row["devices"] or "{}"), row["gpu_model"]) for row in tables["node"]]


def node(**capacity: str) -> Json:
    counts = {key.replace("_", "/"): value for key, value in capacity.items()}
    ready = [{"type": "Ready", "status": "True"}]
    return {"kind": "Node", "metadata": {"name": "n1"}, "status": {"capacity": counts, "conditions": ready}}


H100 = "NVIDIA H100 80GB HBM3"


@pytest.mark.parametrize(
    ("items", "expected"),
    [
        pytest.param((node(cpu="64"),), [], id="a node without GPUs"),
        pytest.param(
            (node(cpu="64"), resource_slice(gpu("g0", A), driver="dra.example.com")), [], id="another driver's devices"
        ),
        pytest.param(
            (node(cpu="64"), resource_slice(gpu("g0", A), gpu("g1", B))),
            [("n1", {"": 2}, H100)],
            id="GPUs of slices alone (trap 13)",
        ),
        pytest.param(
            (resource_slice(gpu("g0", A)),), [("n1", {"": 1}, H100)], id="a node of which only slices were dumped"
        ),
        pytest.param(
            (node(**{"nvidia.com_gpu": "8"}), resource_slice(gpu("g0", A))),
            [("n1", {"": 8}, None)],
            id="the device plugin counts first",
        ),
        pytest.param(
            (node(cpu="64"), resource_slice(mig("m0", A), mig("m1", A), gpu("g1", B))),
            [("n1", {"": 1, "1g.10gb": 2}, H100)],
            id="slices of a GPU that is cut, beside a whole one",
        ),
        pytest.param(
            (node(cpu="64"), resource_slice(gpu("g0", A), mig("m0", A), mig("m1", A))),
            [("n1", {"": 1}, H100)],
            id="ways to cut a GPU that is whole are no devices",
        ),
        pytest.param(
            (
                node(cpu="64"),
                resource_slice(gpu("g0", A), gpu("g1", B), generation=1),
                resource_slice(gpu("g0", A), generation=2),
            ),
            [("n1", {"": 1}, H100)],
            id="an old generation of the pool is no more",
        ),
    ],
)
def test_inventory_of_slices(items: tuple[Json, ...], expected: list[tuple[str, Json, str | None]]) -> None:

    assert expected == nodes_of(*items)


def test_a_captured_slice() -> None:
    file = SHARED / "wire/kubernetes/cluster_evidence/v1_35_openshift_dra-support.txt"
    if not file.is_file():
        pytest.skip(f"{file} is absent: set GPUWATCH_SHARED")
    block = next(text for text in file.read_text().split("=====") if "kind: ResourceSlice" in text)
    item = yaml.safe_load(block.partition("-o yaml\n")[2].replace("  ...\n", ""))
    found = parse_slice(item)

    assert found is not None
    assert ["GPU-da96f367-6e47-8dc4-fd29-4f0b97b9f174", "GPU-204349eb-0405-e927-278b-8804172f1be3"] == [
        device.gpu for device in found.devices.values()
    ]
    allocations = Allocations()
    allocations.take_slice(item)
    assert ({"": 2}, "Tesla T4") == allocations.inventory("harpatil4220c-g9kfm-gpu-c-rd8r8")


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        ("dra_gpu-test1.yaml", {(None, 1)}),
        ("dra_gpu-test4.yaml", {("1g.5gb", 1), ("2g.10gb", 1), ("3g.20gb", 1)}),
        ("dra_gpu-test-mps.yaml", {(None, 1)}),
    ],
)
def test_captured_claim_templates(name: str, expected: set[tuple[str | None, int]]) -> None:
    file = SHARED / "wire/kubernetes" / name
    if not file.is_file():
        pytest.skip(f"{file} is absent: set GPUWATCH_SHARED")
    documents = [d for d in yaml.safe_load_all(file.read_text()) if d and d["kind"] == "ResourceClaimTemplate"]
    wanted = [devices for d in documents for devices in parse_claim(d["spec"]).requested]

    assert expected == {(devices.profile, devices.count) for devices in wanted}


# Live: pieces come in any order ---------------------------------------------------------------------------------------


def test_whatever_comes_first_the_same_is_known_at_last() -> None:
    pieces = {
        "pod": lambda book: book.pod(pod("a", "c"), us(1)),
        "claim": lambda book: book.claim(claim("c", "gpu-0"), us(1)),
        "slice": lambda book: book.slice(resource_slice(gpu("gpu-0", A)), us(1)),
        "node": lambda book: book.node(node(cpu="64"), us(1)),
    }
    for order in permutations(pieces):
        book = ClusterChanges()
        for name in order:
            pieces[name](book)
        tables = book.take(us(2))
        last = tables["claim"][-1]

        assert (None, 1, A) == (last["profile"], last["device_count"], last["gpus"]), order
        assert '{"":1}' == tables["node"][-1]["devices"], order


def test_a_pod_that_ends_keeps_the_devices_of_a_claim_that_is_gone() -> None:
    book = ClusterChanges()
    book.slice(resource_slice(gpu("gpu-0", A)), us(0))
    book.claim(claim("c", "gpu-0"), us(0))
    book.pod(pod("a", "c"), us(0))
    book.take(us(0))
    book.claim_deleted(claim("c", "gpu-0"))
    book.pod(pod("a", "c", end=60), us(61))

    assert [(us(60), 1, A, "dra")] == [
        (r["end_us"], r["device_count"], r["gpus"], r["kind"]) for r in book.take(us(61))["claim"]
    ]
    assert {} == book.outbox.rejects.counts


def test_a_claim_that_lets_go_of_its_devices_does_not_end_a_pod_that_runs() -> None:
    book = ClusterChanges()
    book.claim(claim("c", "gpu-0"), us(0))
    book.pod(pod("a", "c"), us(0))
    book.take(us(0))
    book.claim(claim("c"), us(5))
    book.pod(pod("a", "c"), us(6))

    assert {} == book.take(us(6))


def test_a_slice_that_goes_takes_its_devices_along() -> None:
    book = ClusterChanges()
    book.node(node(cpu="64"), us(0))
    book.slice(resource_slice(gpu("gpu-0", A), gpu("gpu-1", B)), us(0))
    book.slice(resource_slice(gpu("gpu-0", A), generation=2), us(10))
    book.slices_listed({"n1-2"}, us(20))

    assert ['{"":2}', '{"":1}'] == [row["devices"] for row in book.take(us(20))["node"]]


@pytest.mark.parametrize(
    ("nodes", "expected"),
    [
        pytest.param(True, [], id="the node itself is about to be told"),
        pytest.param(False, ['{"":1}'], id="nodes are not read: the slice is all there is"),
    ],
)
def test_a_slice_of_an_unknown_node(nodes: bool, expected: list[str]) -> None:
    book = ClusterChanges(nodes)
    book.slice(resource_slice(gpu("gpu-0", A)), us(0))

    assert expected == [row["devices"] for row in book.take(us(0)).get("node", [])]
