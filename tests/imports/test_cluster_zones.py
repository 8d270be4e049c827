"""Naive times are read in the time zone of their cluster: the table [timezones] of gpuwatch.toml."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from gpuwatch.cli import run
from gpuwatch.core.errors import UsageError
from gpuwatch.imports.cluster_zones import configured
from gpuwatch.service.config import load
from gpuwatch.store.database import Store
from tests.commands.test_imports import Capture, listed, sacct

TWO_SITES = '[timezones]\nberlin = "Europe/Berlin"\nvirginia = "America/New_York"\n'
TEN_US = 1_793_613_600_000_000
"""2026-11-02T10:00:00Z, as the jobs print their start without a zone."""
HOUR_US = 3_600_000_000


@pytest.fixture
def config(tmp_path: Path) -> Path:
    path = tmp_path / "gpuwatch.toml"
    path.write_text(TWO_SITES)
    return path


def started(data: Path) -> dict[str, int]:
    """Hours after ten o'clock UTC at which the job of each cluster began."""
    with Store.open(data) as store:
        rows = store.sql("select cluster, start_us from run")
    return {cluster: (start_us - TEN_US) // HOUR_US for cluster, start_us in rows}


def imported(file: Path, cluster: str, *more: str) -> int:
    return run(["import", "sacct", str(file), "--cluster", cluster, "--format", "json", *more])


def test_each_site_has_its_own(config: Path, tmp_path: Path, capsys: Capture) -> None:
    data = str(tmp_path / "data")
    given = ("--data", data, "--config", str(config))
    for number, cluster in enumerate(("berlin", "virginia", "tokyo")):
        file = sacct(tmp_path / f"{cluster}.txt", number + 1)
        capsys.readouterr()
        assert 0 == imported(file, cluster, *given)
        out, err = capsys.readouterr()
        assumed = json.loads(out)["items"][0]["assumed_zone"]
        assert ("UTC" if cluster == "tokyo" else None) == assumed, err
    run(["analyze", "--data", data])

    assert {"berlin": -1, "virginia": 5, "tokyo": 0} == started(Path(data))
    assert {"berlin": "Europe/Berlin", "virginia": "America/New_York"} == {
        item["cluster"]: item["timezone"] for item in listed(Path(data), capsys) if item["cluster"] != "tokyo"
    }


def test_the_option_wins_and_a_zone_that_is_set_later_replaces_the_reading(config: Path, tmp_path: Path) -> None:
    data, file = str(tmp_path / "data"), sacct(tmp_path / "sacct.txt", 1)
    for more, hours in (
        ((), 0),
        (("--config", str(config)), -1),
        (("--config", str(config), "--timezone", "Asia/Tokyo"), -9),
    ):
        assert 0 == imported(file, "berlin", "--data", data, *more)
        run(["analyze", "--data", data])
        assert {"berlin": hours} == started(Path(data))


def test_a_bundle_that_names_its_zone_keeps_it(config: Path, tmp_path: Path) -> None:
    bundle, data = tmp_path / "bundle", str(tmp_path / "data")
    (bundle / "slurm").mkdir(parents=True)
    sacct(bundle / "slurm" / "sacct.txt", 1)
    for text, hours in (('cluster = "berlin"\n', -1), ('cluster = "berlin"\ntimezone = "Asia/Tokyo"\n', -9)):
        (bundle / "bundle.toml").write_text(text)
        assert 0 == run(["import", "bundle", str(bundle), "--data", data, "--config", str(config)])
        run(["analyze", "--data", data])
        assert {"berlin": hours} == started(Path(data))


@pytest.mark.parametrize(
    ("tables", "message"),
    [
        pytest.param({"timezones": "Europe/Berlin"}, "timezones is not a table", id="a text"),
        pytest.param({"timezones": {"b": "Berlin"}}, r"\[timezones\] b: unknown time zone 'Berlin'", id="a city"),
        pytest.param({"timezones": {"b": 1}}, r"\[timezones\] b: 1 is not the name", id="a number"),
    ],
)
def test_a_mistake_is_named(tables: dict[str, Any], message: str) -> None:
    with pytest.raises(UsageError, match=message):
        configured(tables)


def test_a_server_reads_the_file_too(config: Path) -> None:
    load(config, {})
    config.write_text(TWO_SITES.replace("Europe/Berlin", "Berlin"))
    with pytest.raises(UsageError, match=r"\[timezones\] berlin: unknown time zone 'Berlin'"):
        load(config, {})
