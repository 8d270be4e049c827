"""Tables for people: the findings' lost work beside their waste, and each fix of the doctor once."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from typer.testing import CliRunner

from gpuwatch.cli import app

RUNNER = CliRunner()
SACCT = (
    "JobID|JobName|User|Account|Partition|State|Submit|Start|End|AllocTRES|NodeList|ExitCode\n"
    "1|train|ann|vision|gpu|COMPLETED|2026-11-10T20:30:00|2026-11-10T20:30:00|2026-11-12T21:30:00|gres/gpu:h100=8,gres/gpu=8|gpu01|0:0\n"
    "3|train|ann|vision|gpu|FAILED|2026-11-24T09:00:00|2026-11-24T09:00:00|2026-11-24T19:00:00|gres/gpu:h100=8,gres/gpu=8|gpu01|1:0\n"
)


@pytest.fixture(scope="module")
def data(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A scanned directory of one dump: a failed run of 80 GPU-hours at list price."""
    folder = tmp_path_factory.mktemp("tables")
    (folder / "dumps").mkdir()
    (folder / "dumps" / "sacct.txt").write_text(SACCT, "utf-8")
    done = RUNNER.invoke(app, ["scan", str(folder / "dumps"), "--out", str(folder / "out"), "--format", "json"])
    assert 0 == done.exit_code, done.output
    return folder / "out/data"


def test_lost_work_has_a_column_of_its_own(data: Path) -> None:
    shown = RUNNER.invoke(app, ["findings", "--data", str(data), "--detector", "failed-work", "--format", "table"])
    (found,) = json.loads(
        RUNNER.invoke(app, ["findings", "--data", str(data), "--detector", "failed-work", "--format", "json"]).stdout
    )["items"]
    blind = RUNNER.invoke(app, ["findings", "--data", str(data), "--detector", "blind-spot", "--format", "table"])

    assert "550.40" == found["evidence"]["lost_cost"]
    assert "lost" in shown.stdout.split("─")[0]
    assert "550.40" in shown.stdout
    assert "Lost work is not added to waste" in shown.stdout
    assert "lost" not in blind.stdout.split("─")[0]


def test_the_doctor_prints_a_fix_once(data: Path) -> None:
    checks = json.loads(RUNNER.invoke(app, ["doctor", "--data", str(data), "--format", "json"]).stdout)["items"]
    shown = RUNNER.invoke(app, ["doctor", "--data", str(data), "--format", "table"]).stdout
    fixes = [check["fix"] for check in checks if check["fix"]]

    assert len(set(fixes)) < len(fixes), "some checks have one fix"
    assert len(fixes) - len(set(fixes)) == shown.count("The same fix as ")
    assert all(1 == shown.count(fix.splitlines()[0]) for fix in set(fixes) if fixes.count(fix) > 1)


def test_a_table_of_findings_names_owners_as_the_table_of_charges_does(data: Path) -> None:
    shown = RUNNER.invoke(app, ["findings", "--data", str(data), "--detector", "blind-spot", "--format", "table"])
    listed = RUNNER.invoke(app, ["findings", "--data", str(data), "--detector", "blind-spot", "--format", "json"])

    assert ["__platform__"] == [item["team"] for item in json.loads(listed.stdout)["items"]]
    assert " Platform " in shown.stdout and "__platform__" not in shown.stdout
