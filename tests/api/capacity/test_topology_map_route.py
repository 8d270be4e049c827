"""The routes that draw the topology: who sees which GPUs, a node's links, what a link touches."""

from __future__ import annotations

from typing import Any

import pytest

from gpuwatch.api.schema.capacity.topology import FleetMap, JobOverlay, LinkReach, NodeView
from tests.worlds.api import Api


@pytest.fixture(scope="module")
def red(filled: Api) -> str:
    """A token of team red."""
    return filled.token("read", "red")


def ask(api: Api, path: str, token: str | None = None, status: int = 200) -> dict[str, Any]:
    answer = api.get(f"/api/v1/topology/{path}", token=token or api.service.local_secret)
    assert status == answer.status_code, answer.text
    return dict(answer.json())


def test_nothing_is_drawn_of_a_service_without_data(bare: Api) -> None:
    found = ask(bare, "map")

    assert ([], [], {}) == (found["nodes"], found["clusters"], found["unknown"])


def test_the_map_has_every_gpu_with_its_owner(filled: Api) -> None:
    found = ask(filled, "map?at=2026-11-02T01:30:00Z")
    FleetMap.model_validate(found)
    nodes = {node["node"]: node for node in found["nodes"]}
    mine = nodes["rednode"]

    assert {"rednode", "bluenode", "mignode"} == set(nodes)
    assert (["GPU-red"], ["held"]) == (mine["gpus"], mine["state"])
    assert "red" == found["teams"][mine["team"][0]]
    assert {"job": "9001", "name": "redtrain", "gpus": 1, "nodes": 1} == {
        name: found["jobs"][mine["job"][0]][name] for name in ("job", "name", "gpus", "nodes")
    }
    assert (["held"], [2]) == (nodes["mignode"]["state"], nodes["mignode"]["jobs"])


def test_open_findings_are_on_their_gpus(filled: Api) -> None:
    found = ask(filled, "map")
    titles = {
        found["findings"][place]["detector"]
        for node in found["nodes"]
        for place in node["finding"]
        if place is not None
    }
    every = filled.get("/api/v1/findings?state=open", token=filled.service.local_secret).json()["items"]

    assert {one["detector"] for one in every if one["devices"]} == titles


def test_a_team_sees_its_own_nodes_and_nothing_of_others_on_them(filled: Api, red: str) -> None:
    found = ask(filled, "map?at=2026-11-02T01:30:00Z", red)
    nodes = {node["node"]: node for node in found["nodes"]}

    assert {"rednode", "mignode"} == set(nodes)
    assert ["red"] == found["teams"]
    assert {"9001", "redlab/redpod"} == {job["job"] for job in found["jobs"]}
    assert [1] == nodes["mignode"]["jobs"]


def test_before_the_ledger_nothing_is_known(filled: Api) -> None:
    found = ask(filled, "map?at=2020-01-01T00:00:00Z")

    assert [] == found["nodes"]
    assert "The ledger begins" in found["unknown"]["c1"]


def test_a_job_is_shown_to_its_team_only(filled: Api, red: str) -> None:
    found = ask(filled, "job?job=9001", red)
    JobOverlay.model_validate(found)

    assert [{"gpu": "GPU-red", "node": "rednode"}] == found["gpus"]
    assert (None, None, "a single GPU uses no links") == (found["best"], found["grade"], found["why"])
    assert ask(filled, "job?job=9002", red, 404)["error"] == ask(filled, "job?job=9002", red, 404)["error"]
    assert "9002" == ask(filled, "job?job=9002")["job"]


def test_a_node_is_shown_to_teams_that_hold_a_gpu_of_it_now(filled: Api, red: str) -> None:
    """Their jobs are over: nothing of the fleet is theirs now."""
    whole = ask(filled, "node?cluster=c1&node=rednode")
    NodeView.model_validate(whole)

    assert ["GPU-red"] == [one["gpu"] for one in whole["gpus"]]
    assert [] == whole["pairs"]
    for name in ("bluenode", "none-such"):
        assert "not in the topology" in ask(filled, f"node?cluster=c1&node={name}", red, 404)["error"]["message"]


def test_what_a_link_touches(filled: Api, red: str) -> None:
    found = ask(filled, "touches?cluster=c1&kind=node&name=rednode&at=2026-11-02T01:30:00Z")
    LinkReach.model_validate(found)

    assert [("9001", "red", 1, 1, False)] == [
        (job["job"], job["team"], job["gpus"], job["gpus_inside"], job["crosses"]) for job in found["jobs"]
    ]
    assert "team_scope" == ask(filled, "touches?cluster=c1&kind=node&name=rednode", red, 403)["error"]["code"]
    assert (
        404
        == filled.get(
            "/api/v1/topology/touches?cluster=c1&kind=leaf&name=l9", token=filled.service.local_secret
        ).status_code
    )
