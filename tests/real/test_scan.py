"""gpuwatch scan of a real Prometheus: the simulator's series with labels of jobs, GPU_UTIL alone, and captured scrapes."""

from __future__ import annotations

import gzip
import json
import re
import shutil
import time
from collections.abc import Iterator
from decimal import Decimal
from pathlib import Path
from typing import Any

import pytest
from prometheus_client.parser import text_string_to_metric_families

from gpuwatch.policy.ownership import PLATFORM
from gpuwatch.report.facts import UNOWNED
from gpuwatch.simulate import simulate
from tests.real.test_backfill import Series, needs, prometheus
from tests.worlds import processes
from tests.worlds.patience import PATIENCE_S

LABEL = re.compile(r'(\w+)="([^"]*)"')
CAPTURED = ("t4_x1_rafay", "t4_x1_ericsson", "l4_x1_kops", "l40s_x1_upcloud", "l40s_x2_viettel")
"""Scrapes of five clusters with six GPUs on five nodes."""
CAPTURED_S = 2 * 3600
STEP_S = 60
NEED_SM = {"false-utilization", "small-batch", "right-sizing", "checkpoint-stall", "mig-mismatch"}
UTIL = "DCGM_FI_DEV_GPU_UTIL"
Site = tuple[str, Path]


def simulated(bundle: Path) -> list[Series]:
    """The samples of a bundle's metrics, by series."""
    found: dict[str, dict[int, float]] = {}
    for path in sorted((bundle / "metrics").glob("*.gz")):
        for line in gzip.decompress(path.read_bytes()).decode().splitlines():
            if not line.startswith("#"):
                series, value, at = line.rsplit(" ", 2)
                found.setdefault(series, {})[int(at)] = float(value)
    return [
        (
            {"__name__": series.partition("{")[0], "instance": "n:9400"} | dict(LABEL.findall(series)),
            sorted(samples.items()),
        )
        for series, samples in found.items()
    ]


def captured(folder: Path, end_s: int) -> list[Series]:
    """Captured scrapes, each repeated every minute until `end_s`."""
    times = [at * 1000 for at in range(end_s - CAPTURED_S, end_s + 1, STEP_S)]
    every = [
        sample
        for name in CAPTURED
        for family in text_string_to_metric_families((folder / f"{name}.prom").read_text("utf-8"))
        for sample in family.samples
    ]
    once = {json.dumps([one.name, one.labels], sort_keys=True): one for one in every}
    return [({"__name__": one.name} | one.labels, [(at, one.value) for at in times]) for one in once.values()]


def of_job(job: str, series: list[Series]) -> list[Series]:
    return [(labels | {"job": job}, samples) for labels, samples in series]


@pytest.fixture(scope="module")
def site(shared: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Site]:
    """A server with three exporters (told apart by their job label), and a folder with the first one's files."""
    needs("prometheus", "promtool")
    directory = tmp_path_factory.mktemp("scan")
    bundle, files = directory / "bundle", directory / "files"
    simulate(bundle, gpus=16, days=0.5, seed=1, step_s=STEP_S, scenes="none")
    files.mkdir()
    shutil.copytree(bundle / "metrics", files / "metrics")
    series = simulated(bundle)
    end_s = int(time.time()) // STEP_S * STEP_S - 600
    every = [
        *of_job("simulated", series),
        *of_job("utilization", [one for one in series if one[0]["__name__"] == UTIL]),
        *of_job("captured", captured(shared / "wire/dcgm", end_s)),
    ]
    with prometheus(directory, every) as url:
        yield url, files


def scan(source: str | Path, out: Path, *options: str) -> tuple[dict[str, Any], str]:
    """The scan as data, and its page."""
    words = ["scan", source, "--days", "60", "--out", out, "--format", "json", *options]
    done = processes.run(words, timeout=4 * PATIENCE_S)
    assert 0 == done.returncode, done.stderr
    return json.loads((out / "scan.json").read_text("utf-8")), (out / "scan.html").read_text("utf-8")


def hours(card: dict[str, Any]) -> dict[str, tuple[str, str | None]]:
    """GPU-hours and avoidable GPU-hours by team."""
    return {one["team"]: (one["gpu_hours"], one["avoidable_gpu_hours"]) for one in card["teams"]}


@pytest.fixture(scope="module")
def live(site: Site, tmp_path_factory: pytest.TempPathFactory) -> tuple[dict[str, Any], str]:
    """The scan of the server's whole exporters."""
    return scan(site[0], tmp_path_factory.mktemp("live"), "--match", '{job="simulated"}')


def test_a_server_gives_what_the_files_of_its_exporters_give(
    site: Site, live: tuple[dict[str, Any], str], tmp_path: Path
) -> None:
    """Jobs of Slurm and pods, by the labels of dcgm-exporter alone; the same hours, waste and actions from both."""
    card, page = live
    dumped, _ = scan(site[1], tmp_path)

    assert hours(dumped) == hours(card)
    assert dumped["waste"] == card["waste"]
    assert [(one["id"], one["team"], one["gpu_hours"], one["cost"]) for one in dumped["actions"]] == [
        (one["id"], one["team"], one["gpu_hours"], one["cost"]) for one in card["actions"]
    ]
    assert {"chat-prod", "recsys-dev", "notebooks", "ml-train", "sandbox", UNOWNED, PLATFORM} == set(hours(card))
    assert Decimal(hours(card)[UNOWNED][0]) > 30, "jobs of Slurm have a number and no account here"
    assert "sacct" in next(one["fix"] for one in card["unknown"] if one["what"].startswith("No team is named"))
    assert len(page) < 2_000_000


def test_utilization_alone_accuses_nobody_and_names_the_field_to_add(
    site: Site, live: tuple[dict[str, Any], str], tmp_path: Path
) -> None:
    """What it claims is a part of what all fields show; rules that need the SMs find nothing."""
    card, page = scan(site[0], tmp_path, "--match", '{job="utilization"}')
    whole = hours(live[0])

    assert whole[UNOWNED][0] == hours(card)[UNOWNED][0]
    assert all(Decimal(lost or 0) <= Decimal(whole[team][1] or 0) for team, (_, lost) in hours(card).items())
    assert NEED_SM.isdisjoint(one["id"] for one in card["actions"])
    assert "no DCGM_FI_PROF_SM_ACTIVE" in page


def test_captured_scrapes_are_six_gpus(site: Site, tmp_path: Path) -> None:
    """Two hours and a minute, in which nobody is known to hold them: no waste, at list prices."""
    card, page = scan(site[0], tmp_path, "--match", '{job="captured"}')

    assert {PLATFORM: ("12.100", "0.000")} == hours(card)
    assert ("12.100", "15.00") == (card["gpu_hours"], card["cost"])
    assert "6 GPUs on 5 nodes" in page
