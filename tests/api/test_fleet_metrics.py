"""What teams cost and waste on /metrics: the ledger's numbers, and only for those who may read all of them."""

from __future__ import annotations

import pytest
from prometheus_client.parser import text_string_to_metric_families

from tests.worlds.api import Api

Series = dict[tuple[str, frozenset[tuple[str, str]]], float]


@pytest.fixture
def measured(books: Api) -> Api:
    """After a pass: the template's copy has not had one."""
    books.service.analyse_once()
    return books


def series(api: Api, **more: str) -> Series:
    """Samples of the fleet's gauges by name and labels."""
    families = text_string_to_metric_families(api.get("/metrics", **more).text)
    return {
        (one.name.removeprefix("gpuwatch_"), frozenset(one.labels.items())): one.value
        for family in families
        for one in family.samples
        if one.name.startswith(("gpuwatch_team_", "gpuwatch_device_", "gpuwatch_open_", "gpuwatch_fleet_"))
    }


def total(found: Series, name: str, **labels: str) -> float:
    return sum(value for (one, own), value in found.items() if one == name and own >= labels.items())


def test_series_are_the_ledgers_numbers(measured: Api) -> None:
    """Hours and money by measure add up to what the ledger answers for the same window."""
    found = series(measured)
    hours = found["fleet_window_hours", frozenset()]
    ledger = measured.get(
        "/api/v1/ledger", params={"window": "2020-01-01T00:00:00Z,2030-01-01T00:00:00Z", "by": "team"}
    ).json()

    assert total(found, "team_gpu_hours") == pytest.approx(float(ledger["capacity_gpu_seconds"]) / 3600, abs=1e-3)
    assert total(found, "team_cost_per_hour", currency="USD") * hours == pytest.approx(
        sum(float(one["cost"]) for one in ledger["items"]), abs=0.05
    )
    for measure in ("working", "avoidable", "free"):
        expected = float(ledger[measure]["gpu_seconds"]) / 3600
        assert total(found, "team_gpu_hours", measure=measure) == pytest.approx(expected, abs=1e-3), measure
    assert total(found, "team_avoidable_cost_per_hour") * hours == pytest.approx(
        float(ledger["avoidable"]["cost"]), abs=0.05
    )
    assert total(found, "device_gpu_hours") == pytest.approx(total(found, "team_gpu_hours"))
    assert total(found, "device_gpu_hours", mig_profile="1g.10gb", measure="working") > 0
    for group in ledger["groups"]:
        if group["avoidable"]["ratio"] is not None:
            assert total(found, "team_waste_ratio", team=group["team"]) == group["avoidable"]["ratio"]


def test_open_findings_are_counted(measured: Api) -> None:
    """By cluster, team, detector and severity; resolved ones are not counted."""
    service = measured.service
    assert 0 == total(series(measured), "open_findings")
    with service.store.transaction():
        service.store.sql("update finding set state = 'open', resolved_reason = null where detector = 'idle-hoarding'")
    service._telemetry.fleet.refresh(service.store, service.state, service._analyzer.passes + 1)

    listed = measured.get("/api/v1/findings", params={"state": "open", "limit": 1000}).json()["items"]
    found = series(measured)

    assert {"red", "blue"} == {one["team"] for one in listed}
    assert len(listed) == total(found, "open_findings", detector="idle-hoarding")
    assert 1 == total(found, "open_findings", team="red")


def test_costs_need_a_token_that_reads_the_whole_fleet(measured: Api) -> None:
    """A sender's token sees the service's own metrics, and nobody's charges. So does loopback once a token exists."""
    assert series(measured)
    ingest, read, admin = (measured.token(scope, name=scope) for scope in ("ingest", "read", "admin"))

    assert {} == series(measured, token=ingest)
    assert {} == series(measured)
    assert series(measured, token=read) == series(measured, token=admin) != {}


def test_nothing_is_zero_before_the_first_pass(api: Api) -> None:
    """An empty store has no series: unknown is not zero."""
    assert {} == series(api)
    api.service.analyse_once()
    assert {} == series(api)


def test_a_pass_without_news_reads_nothing_again(measured: Api) -> None:
    before = measured.service._telemetry.fleet.snapshot
    measured.service.analyse_once()

    assert before is measured.service._telemetry.fleet.snapshot
