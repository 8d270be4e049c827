"""gpuwatch scan: one command from a bundle to a page with prices, teams and actions; wrong questions are named."""

from __future__ import annotations

import json
import shutil
from decimal import Decimal
from pathlib import Path
from typing import Any

import pytest
from click.testing import Result
from typer.testing import CliRunner

from gpuwatch.cli import app
from gpuwatch.rates.list_prices import SOURCE, list_prices
from gpuwatch.simulate import simulate

RUNNER = CliRunner()
NO_SAMPLE = "exporter-without-gpus.prom"


def scan(*arguments: str | Path) -> Result:
    return RUNNER.invoke(app, ["scan", *(str(a) for a in arguments)])


@pytest.fixture(scope="module")
def bundle(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A small fleet without rates and teams; one of its files has no sample."""
    out = tmp_path_factory.mktemp("scan") / "bundle"
    simulate(out, gpus=8, days=0.5, seed=1, step_s=120, scenes="idle-hoarding")
    for name in ("rates.csv", "teams.csv"):
        (out / name).unlink()
    (out / "metrics" / NO_SAMPLE).write_text("# HELP up Nothing else.\n", "utf-8")
    return out


@pytest.fixture(scope="module")
def scanned(bundle: Path) -> tuple[Path, dict[str, Any]]:
    """The output directory of a scan, and what the command printed as JSON."""
    out = bundle.parent / "out"
    done = scan("--bundle", bundle, "--out", out, "--format", "json")
    assert 0 == done.exit_code, done.output
    assert f"{NO_SAMPLE}: no DCGM sample in it" in done.stderr
    return out, json.loads(done.stdout)


@pytest.mark.parametrize(
    ("arguments", "problem"),
    [
        pytest.param([], "give one source: gpuwatch scan DIR", id="no source"),
        pytest.param(["--bundle", ".", "--prometheus", "http://p"], "give one source", id="two sources"),
        pytest.param([".", "--bundle", "."], "give one source", id="the same source twice"),
        pytest.param(["nowhere"], "nowhere: no such directory", id="no such path"),
        pytest.param(["--bundle", "nowhere"], "--bundle nowhere: no such directory", id="no bundle"),
        pytest.param(["--bundle", ".", "--days", "0"], "--days 0: use more than 0", id="no days"),
        pytest.param(["--bundle", "."], "nothing to import", id="an empty bundle"),
        pytest.param(["--bundle", ".", "--rates", "empty.csv"], "empty.csv", id="rates without a row"),
    ],
)
def test_a_wrong_question_is_named(
    arguments: list[str], problem: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, bundle: Path
) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "empty.csv").write_text("gpu_model,pricing,usd_per_gpu_hour,valid_from,valid_to\n", "utf-8")
    chosen = [str(bundle) if one == "." and "--rates" in arguments else one for one in arguments]

    result = scan(*chosen, "--out", tmp_path / "out")

    assert 2 == result.exit_code, result.output
    assert problem in result.stderr
    assert not (tmp_path / "out/scan.html").exists()


def test_the_page_has_money_without_a_rate_card(scanned: tuple[Path, dict[str, Any]]) -> None:
    """List prices are used and named as such; costs are the ledger's at these prices."""
    out, shown = scanned
    card = json.loads((out / "scan.json").read_text("utf-8"))
    page = (out / "scan.html").read_text("utf-8")

    assert "USD" == card["currency"]
    assert Decimal(card["waste"]["cost"]) > 0
    assert SOURCE in page
    assert "List prices, not yours" in page
    assert "NVIDIA H100 80GB HBM3: 6.88 USD a GPU-hour (AWS p5.48xlarge)" in page
    assert len(page) < 2_000_000
    assert (out / "scan.pdf").read_bytes().startswith(b"%PDF-")
    assert card["waste"] == shown["waste"]


def test_waste_of_teams_is_the_fleets(scanned: tuple[Path, dict[str, Any]]) -> None:
    out, _ = scanned
    card = json.loads((out / "scan.json").read_text("utf-8"))

    hours = sum(Decimal(one["avoidable_gpu_hours"] or 0) for one in card["teams"])
    held = sum(Decimal(one["gpu_hours"]) for one in card["teams"])

    costs = [Decimal(one["avoidable_cost"] or 0) for one in card["teams"]]
    assert sorted(costs, reverse=True) == costs
    assert abs(hours - Decimal(card["waste"]["gpu_hours"])) <= Decimal("0.001") * len(card["teams"])
    assert abs(held - Decimal(card["gpu_hours"])) <= Decimal("0.001") * len(card["teams"])


def test_each_finding_has_somebody_to_ask(scanned: tuple[Path, dict[str, Any]]) -> None:
    _, shown = scanned
    acts = [one for one in shown["items"] if one["findings"]]

    assert "GPUs held and idle" in {one["action"].partition(":")[0] for one in acts}
    assert all(one["ask"] and one["remedy"] for one in acts)


def test_a_second_scan_takes_own_rates_and_imports_nothing_twice(
    bundle: Path, scanned: tuple[Path, dict[str, Any]], tmp_path: Path
) -> None:
    first = scanned[1]
    out = tmp_path / "out"
    shutil.copytree(scanned[0], out)
    rates = tmp_path / "rates.csv"
    rates.write_text(
        "gpu_model,pricing,usd_per_gpu_hour,valid_from,valid_to\n*,owned,1.00,1970-01-01T00:00:00Z,\n", "utf-8"
    )

    done = scan("--bundle", bundle, "--out", out, "--rates", rates, "--format", "json")
    card = json.loads((out / "scan.json").read_text("utf-8"))

    assert 0 == done.exit_code, done.output
    assert "rates.csv: GPU-hours have no price" not in done.stderr
    shown = json.loads(done.stdout)
    assert ("Priced at your rates", str(rates)) == (
        shown["prices"].partition(" (")[0],
        shown["prices"].partition(" (")[2][:-2],
    )
    assert ["Open the dashboard on this data", "Charges by team", "What lacks, and how to add it"] == [
        one["purpose"] for one in shown["next"]
    ]
    assert all(one["worth"] for one in shown["items"])
    assert first["waste"]["gpu_hours"] == card["waste"]["gpu_hours"]
    assert Decimal(card["gpu_hours"]).quantize(Decimal("0.01")) == Decimal(card["cost"])
    assert "List prices" not in (out / "scan.html").read_text("utf-8")


def test_list_prices_are_per_gpu() -> None:
    """An instance's price divided by its GPUs, exactly."""
    prices = {rate.gpu_model: rate.usd_per_gpu_hour for rate in list_prices()}

    assert (Decimal("6.88"), Decimal("2.74470525"), Decimal("0.526")) == (prices["H100"], prices["A100"], prices["T4"])


SACCT = (
    "JobID|JobName|User|Account|Partition|State|Submit|Start|End|AllocTRES|NodeList|ExitCode\n"
    "1|train|ann|vision|gpu|COMPLETED|2026-11-10T20:30:00|2026-11-10T20:30:00|2026-11-10T21:30:00|gres/gpu:h100=8,gres/gpu=8|gpu01|0:0\n"
    "2|train|ann|vision|gpu|COMPLETED|2026-11-25T04:00:00|2026-11-25T04:00:00|2026-11-25T05:00:00|gres/gpu:h100=8,gres/gpu=8|gpu01|0:0\n"
    "3|train|ann|vision|gpu|FAILED|2026-11-24T09:00:00|2026-11-24T09:00:00|2026-11-24T19:00:00|gres/gpu:h100=8,gres/gpu=8|gpu01|1:0\n"
)


def test_sacct_alone_has_a_price_and_the_zone_can_be_given(tmp_path: Path) -> None:
    """The model is that of the allocations; all of the first of the 14 days counts, and another zone replaces the first reading."""
    bundle, out = tmp_path / "b", tmp_path / "out"
    (bundle / "slurm").mkdir(parents=True)
    (bundle / "slurm/sacct.txt").write_text(SACCT, "utf-8")

    first = scan("--bundle", bundle, "--out", out, "--format", "json")
    assert 0 == first.exit_code, first.output
    assert f'write timezone = "Europe/Berlin" into {bundle}/bundle.toml, or read again with --timezone' in first.stderr
    assert {"start": "2026-11-11T00:00:00Z", "end": "2026-11-25T05:00:00Z"} == json.loads(first.stdout)["window"]
    (team,) = [one for one in json.loads(first.stdout)["teams"] if one["team"] == "vision"]
    assert ("88.000", "605.44") == (team["gpu_hours"], team["cost"])

    again = scan("--bundle", bundle, "--out", out, "--timezone", "America/New_York", "--format", "table")
    assert 0 == again.exit_code, again.output
    assert "no offset" not in again.stderr
    assert "rates.csv" not in again.stderr
    assert "on 1 node; its last record is of 2026-11-25 10:00 UTC" in " ".join(again.stdout.split())
    card = json.loads((out / "scan.json").read_text("utf-8"))
    (failed,) = [one for one in card["actions"] if one["id"] == "failed-work"]
    assert 1 == failed["findings"]


SQUEUE = {
    "jobs": [
        {"job_id": 7, "job_state": ["PENDING"], "partition": "gpu", "account": "vision", "tres_req_str": "gres/gpu:h100=4",
         "submit_time": 1795378051, "node_count": 1, "state_reason": "Resources"}
    ]
}  # fmt: skip


def test_a_directory_is_enough_and_squeue_json_in_it_is_read(tmp_path: Path) -> None:
    """No option names the source; the printed command about charges has the window of the scan, not the last 7 days."""
    bundle, out = tmp_path / "dumps", tmp_path / "out"
    bundle.mkdir()
    (bundle / "sacct.txt").write_text(SACCT, "utf-8")
    (bundle / "squeue.json").write_text(json.dumps(SQUEUE), "utf-8")

    done = scan(bundle, "--out", out, "--format", "json")

    assert 0 == done.exit_code, done.output
    assert "not understood" not in done.stderr
    page = (out / "scan.html").read_text("utf-8")
    window = json.loads(done.stdout)["window"]
    assert f"--window {window['start']},{window['end']} --by team,user" in page


def test_windows_that_count_back_end_with_data_that_ended(tmp_path: Path) -> None:
    """The data ends years before now: 7d is its last 7 days, given or by default, as on pages, and a line says so. A date is a date."""
    bundle, out = tmp_path / "dumps", tmp_path / "out"
    bundle.mkdir()
    (bundle / "sacct.txt").write_text(SACCT.replace("2026-11", "2024-11"), "utf-8")
    assert 0 == scan(bundle, "--out", out, "--format", "json").exit_code

    default, asked, again, day = (
        RUNNER.invoke(app, [*words, "--data", str(out / "data"), "--format", "json"])
        for words in (["ledger"], ["ledger", "--window", "7d"], ["chargeback"], ["ledger", "--window", "2024-01-01"])
    )

    assert {"start": "2024-11-18T05:00:00Z", "end": "2024-11-25T05:00:00Z"} == json.loads(default.stdout)["window"]
    assert json.loads(default.stdout)["window"] == json.loads(again.stdout)["window"]
    assert "The data ends at 2024-11-25T05:00:00Z: these are its last 7d." in default.stderr
    assert json.loads(default.stdout) == json.loads(asked.stdout)
    assert "these are its last 7d." in asked.stderr
    assert "0.000000" == json.loads(day.stdout)["capacity_gpu_seconds"]
    assert "these are its last" not in day.stderr


def test_a_zone_is_for_a_bundle(tmp_path: Path) -> None:
    asked = ["--out", tmp_path / "out", "--timezone"]

    assert "--timezone is for a --bundle" in scan("--prometheus", "http://p", *asked, "UTC").stderr
    assert "Mars/Olympus" in scan("--bundle", tmp_path, *asked, "Mars/Olympus").stderr


def test_a_bad_row_of_the_prices_is_named_with_its_line(tmp_path: Path, bundle: Path) -> None:
    """A decimal comma moves the cells: the reason alone names another column."""
    rates = tmp_path / "rates.csv"
    head = "gpu_model,pricing,usd_per_gpu_hour,valid_from,valid_to"
    rates.write_text(f"{head}\n*,owned,2,85,2026-01-01T00:00:00Z\n", "utf-8")

    refused = scan("--bundle", bundle, "--rates", rates, "--out", tmp_path / "out")
    rates.write_text(f"{head}\n*,owned,-2,2026-01-01T00:00:00Z,\n*,owned,2,2020-01-01T00:00:00Z,\n", "utf-8")
    done = scan("--bundle", bundle, "--rates", rates, "--out", tmp_path / "out")

    assert 2 == refused.exit_code and "(line 2: *,owned,2,85,2026-01-01T00:00:00Z" in refused.stderr, refused.stderr
    assert 0 == done.exit_code, done.output
    assert "left out 1: usd_per_gpu_hour" in done.stderr and "(line 2: *,owned,-2," in done.stderr


def test_a_model_that_no_line_prices_is_named(tmp_path: Path, bundle: Path) -> None:
    """As where its name has a typing error."""
    rates = tmp_path / "rates.csv"
    rates.write_text(
        "gpu_model,pricing,usd_per_gpu_hour,valid_from,valid_to\nNVIDIA Z9 80GB,owned,2,2020-01-01T00:00:00Z,\n",
        "utf-8",
    )

    done = scan("--bundle", bundle, "--rates", rates, "--out", tmp_path / "out", "--format", "table")

    assert 0 == done.exit_code, done.output
    assert "No line of the prices is for NVIDIA" in " ".join(done.stdout.split())
