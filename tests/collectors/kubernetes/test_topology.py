"""Kueue's Topology and Volcano's HyperNode into links."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

import pytest
import yaml

from gpuwatch.collectors.kubernetes.kinds import find_kind
from gpuwatch.collectors.kubernetes.topology import hypernode_rows, topology_rows
from gpuwatch.collectors.shared.json_fields import Malformed

SHARED = Path(os.environ.get("GPUWATCH_SHARED", Path(__file__).parents[4] / "shared"))


def topology(*levels: Any) -> dict[str, Any]:
    return {"metadata": {"name": "t"}, "spec": {"levels": list(levels)}}


def hypernode(tier: Any, *members: Any) -> dict[str, Any]:
    return {"metadata": {"name": "h"}, "spec": {"tier": tier, "members": list(members)}}


@pytest.mark.parametrize(
    "item",
    [
        pytest.param({"spec": {"levels": [{"nodeLabel": "a"}]}}, id="no name"),
        pytest.param(topology(), id="no levels"),
        pytest.param(topology({"nodeLabel": "a"}, {}), id="a level without a label"),
        pytest.param(topology("a"), id="a level that is text"),
        pytest.param(topology(*({"nodeLabel": f"l{n}"} for n in range(65))), id="too many levels"),
    ],
)
def test_a_topology_that_is_none_is_refused(item: dict[str, Any]) -> None:
    with pytest.raises(Malformed):
        list(topology_rows(item, None))


@pytest.mark.parametrize(
    "item",
    [
        pytest.param(hypernode(None), id="no tier"),
        pytest.param(hypernode("near"), id="a tier that is no number"),
        pytest.param(hypernode(1, {"type": "Node"}), id="a member without a selector"),
        pytest.param(hypernode(1, {"type": "Pod", "selector": {"exactMatch": {"name": "a"}}}), id="a member of a strange type"),
        pytest.param(
            hypernode(1, {"type": "Node", "selector": {"labelMatch": {"matchExpressions": [{"key": "a", "operator": "Gt"}]}}}),
            id="an operator that selectors do not have",
        ),
    ],
)  # fmt: skip
def test_a_hypernode_that_is_none_is_refused(item: dict[str, Any]) -> None:
    with pytest.raises(Malformed):
        list(hypernode_rows(item, None))


def test_levels_of_a_topology() -> None:
    rows = [row for _, row in topology_rows(topology({"nodeLabel": "block"}, {"nodeLabel": "rack"}), 77)]

    assert [("t", "block", "LEVEL", 77, None), ("t", "rack", "LEVEL", 77, None)] == [
        (row["a"], row["b"], row["level"], row["observed_us"], row["node"]) for row in rows
    ]
    assert [{"order": n, "levels": ["block", "rack"]} for n in (0, 1)] == [json.loads(row["detail"]) for row in rows]


def test_members_of_a_hypernode() -> None:
    item = hypernode(
        2,
        {"type": "HyperNode", "selector": {"exactMatch": {"name": "s0"}}},
        {"type": "Node", "selector": {"regexMatch": {"pattern": "^n-[0-9]+$"}}},
        {"type": "Node", "selector": {"labelMatch": {"matchLabels": {"rack": "r1"}}}},
        {"name": "n9"},
    )
    ((table, row),) = hypernode_rows(item, 77)

    assert ("link", "h", None, "HYPERNODE", 77) == (table, row["a"], row["b"], row["level"], row["observed_us"])
    assert {
        "tier": 2,
        "tier_name": None,
        "members": [
            {"type": "HyperNode", "name": "s0"},
            {"type": "Node", "regex": "^n-[0-9]+$"},
            {"type": "Node", "expressions": [{"key": "rack", "operator": "In", "values": ["r1"]}]},
            {"type": "Node", "name": "n9"},
        ],
    } == json.loads(row["detail"])


@pytest.mark.parametrize("version", ["v1alpha1", "v1beta1", "v1beta2"])
def test_every_version_of_a_topology_is_found(version: str) -> None:
    kind = find_kind({"apiVersion": f"kueue.x-k8s.io/{version}", "kind": "Topology"})

    assert kind is not None
    assert (version, topology_rows) == (version if version in kind.versions else None, kind.rows)


def recorded(path: Path, kind: str) -> list[dict[str, Any]]:
    if not path.exists():
        pytest.skip(f"{path} is not there: set GPUWATCH_SHARED")
    return [one for one in yaml.safe_load_all(path.read_text()) if isinstance(one, dict) and one.get("kind") == kind]


def test_recorded_hypernodes() -> None:
    """The design shows them with the name beside the spec: it is put where the API has it."""
    items = recorded(SHARED / "wire/schedulers/volcano/hypernode_design_objects.yaml", "HyperNode")
    rows = [row for item in items for _, row in hypernode_rows({"metadata": {"name": item["name"]}, **item}, None)]
    tiers = {row["a"]: json.loads(row["detail"])["tier"] for row in rows}

    assert 13 == len(rows)
    assert [1, 2, 3] == [tiers[name] for name in ("s0", "s4", "s6")]


@pytest.mark.parametrize(
    ("name", "levels"),
    [("sample-queues.yaml", 3), ("sample-gpu-queues.yaml", 3), ("tas_objects.yaml", 2), ("manager-setup.yaml", 1)],
)
def test_recorded_topologies(name: str, levels: int) -> None:
    (item,) = recorded(SHARED / "wire/schedulers/kueue" / name, "Topology")

    assert levels == len(list(topology_rows(item, None)))
