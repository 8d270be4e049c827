"""The service publishes after its passes; a lake that is away delays nothing, is reported, and gets everything later."""

from __future__ import annotations

import time
from pathlib import Path

import pytest

from gpuwatch.api.routes.admin.health import readiness
from gpuwatch.core.errors import UsageError
from gpuwatch.lake import guard
from gpuwatch.lake.connection import Lake
from gpuwatch.lake.settings import NAME, LakeSettings
from gpuwatch.lake.verify import verify
from gpuwatch.service import config, publishing
from gpuwatch.service.config import Plan
from gpuwatch.service.service import Service
from gpuwatch.settings import Settings
from tests.lake.conftest import START_US, Fleet, Make
from tests.worlds.patience import wait_until
from tests.worlds.postgres import Postgres, postgres_server

NOW_US = START_US + 2 * 86_400_000_000


def opened(fleet: Fleet, lake: LakeSettings) -> Service:
    plan = Plan(Settings(), {}, (), config.after_pass.configured({}), lake=lake)
    return Service.open(fleet.directory, Settings(), plan, now_us=lambda: NOW_US)


@pytest.mark.parametrize("kind", ["duckdb", "postgresql"])
def test_a_pass_publishes(few: None, make_lake: Make, fleet: Fleet, kind: str) -> None:
    settings = make_lake(kind, every_s=10)
    service = opened(fleet, settings)
    service.start()
    try:
        wait_until(lambda: service.publishing.status.success_us, "the ledger is in the lake")
        assert [] == service.concerns()
    finally:
        service.stop()
    with Lake.open(settings) as lake:
        assert 1 == guard.read(lake).epoch
        assert [] == [found for report in verify(lake, None, NOW_US) for found in report.differences]


def test_a_lake_that_is_away_is_late_and_comes_back(
    few: None, make_lake: Make, fleet: Fleet, lake_engine: None, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(publishing, "RETRY_S_MAX", 0.2)
    with postgres_server() as server:
        settings = away(server, make_lake("duckdb"))
        server.stop()
        service = opened(fleet, settings)
        service.start()
        try:
            wait_until(lambda: service.publishing.status.error, "the lake is late")
            wait_until(lambda: service.analysis().last_success_us, "the pass ends all the same")
            (concern,) = service.concerns()
            assert concern.startswith(
                "the lake is late, last published: not since the start; it is tried again: the lake"
            )
            ready = readiness(service, named=True)
            assert ("degraded", [concern], True) == (ready["status"], ready["reasons"], ready["analyzer"]["ok"])

            server.start()
            wait_until(lambda: service.publishing.status.success_us, "the ledger is in the lake")
            assert [] == service.concerns()
        finally:
            began = time.monotonic()
            service.stop()
            assert time.monotonic() - began < 60


def away(server: Postgres, settings: LakeSettings) -> LakeSettings:
    """A lake on that server, tried again soon."""
    url = f"postgresql://gpuwatch@/{server.new(empty=True)}?host={server.folder}&port={server.port}"
    return LakeSettings(**{**settings.__dict__, "catalogue": url, "every_s": 0.1})


def test_an_overtaken_service_reports_it_and_goes_on(few: None, make_lake: Make, fleet: Fleet) -> None:
    settings = make_lake("postgresql")
    service = opened(fleet, LakeSettings(**{**settings.__dict__, "every_s": 0.1}))
    service.start()
    try:
        wait_until(lambda: service.publishing.status.success_us, "the ledger is in the lake")
        with Lake.open(settings) as lake:
            lake.sql("update lake.cell_east._guard set epoch = epoch + 1, n = n + 1, holder = 'process 7 on other'")
        with service.reader() as store:
            store.sql("update finding set severity = 'x'")
        service.publishing.wake()
        wait_until(lambda: service.publishing.status.fenced, "it is refused")
        (concern,) = service.concerns()
        assert "it is not tried again" in concern and "process 7 on other took over cell east" in concern
        assert [] == service.problems()
    finally:
        service.stop()


def test_a_service_without_the_extensions_does_not_start(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from gpuwatch.lake import extensions

    monkeypatch.setattr(extensions, "find_spec", lambda name: None)
    file = tmp_path / "gpuwatch.toml"
    file.write_text(f'[{NAME}]\ncatalogue = "lake.ducklake"\ndata = "lake"\ncell = "east"\n')
    with pytest.raises(
        UsageError, match=r"the lake needs DuckDB's extension ducklake, which is not installed: pip install"
    ):
        config.load(file, {})


def lag(service: Service) -> dict[tuple[str, str], float]:
    """The gauge by step and cluster."""
    return {
        (sample.labels["step"], sample.labels["cluster"]): sample.value
        for metric in service.metrics.collect()
        for sample in metric.samples
        if sample.name == "gpuwatch_lake_lag_seconds"
    }


def test_how_late_the_lake_is(few: None, make_lake: Make, fleet: Fleet) -> None:
    moment = [NOW_US]
    settings = make_lake("postgresql", every_s=10)
    plan = Plan(Settings(), {}, (), config.after_pass.configured({}), lake=settings)
    service = Service.open(fleet.directory, Settings(), plan, now_us=lambda: moment[0])
    moment[0] += 7_000_000
    assert {("publish", ""): 7.0} == lag(service), "since the start, of clusters that are not known yet"
    service.start()
    try:
        wait_until(lambda: service.publishing.status.success_us, "the ledger is in the lake")
        moment[0] += 90_000_000
        (found,) = lag(service).items()
        assert (("publish", "sim"), 90.0) == found
    finally:
        service.stop()
    service = Service.open(None, Settings(), {}, now_us=lambda: NOW_US)
    assert {} == lag(service), "nothing without a lake"
    service.stop()
