"""GET /topology: the graph as stored, at an instant, in pages, with what is missing."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from gpuwatch.core.clock import rfc3339
from gpuwatch.core.model import LINK, Records
from gpuwatch.topology import derive as topology_derive
from tests.api.conftest import opened
from tests.worlds.api import Api
from tests.worlds.world import CLUSTER, HOUR, us

ROUTE = "/api/v1/topology"


def switch(a: str, b: str, at: int) -> dict[str, Any]:
    """A node is what ends so."""
    node = b if b.endswith("node") else None
    detail = json.dumps({"plugin": "tree"})
    return {
        "cluster": CLUSTER,
        "observed_us": us(at),
        "node": node,
        "a": a,
        "b": b,
        "level": "SWITCH",
        "detail": detail,
    }


@pytest.fixture(scope="module")
def wired(filled_data: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Api]:
    """Two teams' nodes, one of which moved to another leaf after an hour."""
    for api in opened(filled_data, tmp_path_factory.mktemp("wired") / "data"):
        rows = [switch(*words, 0) for words in (("l1", "rednode"), ("l1", "bluenode"), ("s1", "l1"))]
        rows += [switch(*words, HOUR) for words in (("l1", "rednode"), ("l2", "bluenode"), ("s1", "l1"), ("s1", "l2"))]
        api.service.store.append(Records("link", pa.Table.from_pylist(rows, schema=LINK)))
        topology_derive.derive(api.service.store, CLUSTER)
        yield api


def ask(api: Api, query: str = "") -> dict[str, Any]:
    response = api.get(f"{ROUTE}?{query}", token=api.service.local_secret)
    assert 200 == response.status_code, response.text
    return dict(response.json())


def parents(found: dict[str, Any], kind: str) -> dict[str, str]:
    return {item["id"]: item["parent"] for item in found["items"] if item["kind"] == kind and item["nearest"]}


def test_nothing_is_known_of_a_service_without_data(bare: Api) -> None:
    found = ask(bare)

    assert ([], [], [], None) == (found["items"], found["missing"], found["conflicts"], found["next"])


@pytest.mark.parametrize(
    "query", ["at=yesterday", "at=1960-01-01", "at=9999-99-99", "cursor=abc", "limit=0", "where=x"]
)
def test_what_cannot_be_asked(bare: Api, query: str) -> None:
    response = bare.get(f"{ROUTE}?{query}", token=bare.service.local_secret)

    assert 400 == response.status_code
    assert query.partition("=")[0] == response.json()["error"]["field"]


def test_the_graph_now(wired: Api) -> None:
    found = ask(wired)

    assert {"node:rednode": "leaf:l1", "node:bluenode": "leaf:l2", "node:mignode": None} == parents(found, "node")
    assert {"leaf:l1": "spine:s1", "leaf:l2": "spine:s1"} == parents(found, "leaf")
    assert {"spine:s1": None} == parents(found, "spine")
    assert "node:rednode" == parents(found, "gpu")["gpu:GPU-red"]
    moved = next(i for i in found["items"] if i["id"] == "node:bluenode" and i["parent_kind"] == "leaf")
    assert (rfc3339(us(HOUR)), None, "slurm", 50.0) == (
        moved["valid_from"], moved["valid_until"], moved["source"], moved["bandwidth_gb_per_s"]
    )  # fmt: skip
    assert ["gpu", "nvlink", "pcie", "numa", "node"] == [one["kind"] for one in found["levels"] if one["inside_node"]]


def test_the_graph_as_it_was(wired: Api) -> None:
    found = ask(wired, f"cluster={CLUSTER}&at={rfc3339(us(HOUR - 1))}")
    moved = next(i for i in found["items"] if i["id"] == "node:bluenode" and i["parent_kind"] == "leaf")

    assert ("leaf:l1", None, rfc3339(us(HOUR))) == (moved["parent"], moved["valid_from"], moved["valid_until"])


def test_another_cluster_has_another_graph(wired: Api) -> None:
    assert [] == ask(wired, "cluster=elsewhere")["items"]


def test_pages_are_the_whole(wired: Api) -> None:
    whole, items, cursor = ask(wired)["items"], [], ""
    for _ in range(len(whole)):
        page = ask(wired, f"limit=3{cursor}")
        items += page["items"]
        if page["next"] is None:
            break
        cursor = f"&cursor={page['next']}"

    assert whole == items
    assert len(whole) > 6


def test_what_is_missing_comes_with_the_fix(wired: Api) -> None:
    found = {(one["node"], one["what"]): one["fix"] for one in ask(wired)["missing"]}

    assert [("mignode", "network")] == list(found)
    assert "slurm-topology" in found["mignode", "network"]


def test_a_token_of_a_team_does_not_see_others_nodes(wired: Api) -> None:
    assert 403 == wired.get(ROUTE, token=wired.token("read", "red")).status_code
