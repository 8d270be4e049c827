"""Every query of the Grafana dashboards and rules, in a real Prometheus that holds what /metrics shows."""

from __future__ import annotations

import json
import re
import subprocess
import time
import urllib.parse
import urllib.request
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml
from prometheus_client.parser import text_string_to_metric_families

from tests.house.source_tree import ROOT
from tests.real.test_backfill import Series, needs, prometheus
from tests.worlds.api import fill, open_api
from tests.worlds.patience import PATIENCE_S

BOARDS = sorted((ROOT / "deploy/grafana").glob("*.json"))
RULES = ROOT / "deploy/prometheus-rules.yml"
CHOSEN = {"cluster": ".*", "pool": ".*", "team": "red", "currency": "USD"}
"""What a person picks at the top of a dashboard."""
QUIET = {
    "absent(gpuwatch_books_until_timestamp_seconds)",
    "gpuwatch_analysis_failed == 1",
    "gpuwatch_clock_doubted == 1",
    "gpuwatch_lake_lag_seconds > 1800",
}
"""Alerts that a healthy server must not raise."""


@pytest.fixture(scope="module")
def address(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """A Prometheus with the metrics of two teams; their findings are open."""
    needs("prometheus", "promtool")
    directory = tmp_path_factory.mktemp("grafana")
    api = open_api(directory / "data")
    fill(api.service)
    with api.service.store.transaction():
        api.service.store.sql("update finding set state = 'open', resolved_reason = null")
    api.service._telemetry.fleet.refresh(api.service.store, api.service.state, api.service._analyzer.passes + 1)
    text = api.get("/metrics").text
    api.service.stop()
    at_ms = int(time.time()) * 1000
    found: list[Series] = [
        ({"__name__": one.name} | one.labels, [(at_ms, one.value)])
        for family in text_string_to_metric_families(text)
        for one in family.samples
    ]
    with prometheus(directory, found) as url:
        yield url


def board(path: Path) -> dict[str, Any]:
    found: dict[str, Any] = json.loads(path.read_text("utf-8"))
    return found


def filled(query: str) -> str:
    """A query with the variables of the dashboard replaced."""
    return re.sub(r"\$\{?(\w+)\}?", lambda found: CHOSEN[found[1]], query)


def asked(address: str, query: str) -> list[Any]:
    """The result of an instant query. Raises HTTPError for one that Prometheus refuses."""
    url = f"{address}/api/v1/query?{urllib.parse.urlencode({'query': query})}"
    with urllib.request.urlopen(url, timeout=PATIENCE_S) as answer:
        result: list[Any] = json.load(answer)["data"]["result"]
    return result


@pytest.mark.parametrize("path", BOARDS, ids=lambda path: path.stem)
def test_every_panel_shows_something(address: str, path: Path) -> None:
    """A metric or label that does not exist gives an empty panel."""
    queries = {panel["title"]: panel["targets"][0]["expr"] for panel in board(path)["panels"]}
    # No source reads live in this world, and the part that was not measured may be absent.
    queries.pop("Sources by state", None)
    empty = [title for title, query in queries.items() if not asked(address, filled(query))]

    assert [] == empty


@pytest.mark.parametrize("path", BOARDS, ids=lambda path: path.stem)
def test_a_dashboard_is_whole(path: Path) -> None:
    """Panels have their own ids and places, units and the chosen data source; variables are defined."""
    found = board(path)
    panels = found["panels"]
    places = [(one["gridPos"]["x"], one["gridPos"]["y"]) for one in panels]
    variables = {one["name"] for one in found["templating"]["list"]}
    used = {name for panel in panels for name in re.findall(r"\$\{?(\w+)", panel["targets"][0]["expr"])}

    assert len(panels) == len({one["id"] for one in panels}) == len(set(places))
    assert all(one["gridPos"]["x"] + one["gridPos"]["w"] <= 24 for one in panels)
    assert used <= variables
    # Grafana's schema wants both of a chosen value, or none.
    assert all({"text", "value"} <= set(one.get("current", ("text", "value"))) for one in found["templating"]["list"])
    assert {"${datasource}"} == {one["datasource"]["uid"] for one in panels}


def test_rules_are_valid_and_quiet_on_a_healthy_server(address: str) -> None:
    """Prometheus accepts the file; recorded series have values, and no alert fires that must not."""
    needs("promtool")
    checked = subprocess.run(["promtool", "check", "rules", RULES], check=False, capture_output=True, text=True)
    rules = [rule for group in yaml.safe_load(RULES.read_text("utf-8"))["groups"] for rule in group["rules"]]
    recorded = [rule["expr"] for rule in rules if "record" in rule]

    assert 0 == checked.returncode, checked.stderr
    assert [] == [query for query in recorded if not asked(address, query)]
    assert {rule["expr"] for rule in rules if "alert" in rule} >= QUIET
    assert [] == [query for query in QUIET if asked(address, query)]
