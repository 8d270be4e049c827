"""A scan of a server prints the headline of the first day while it reads the others."""

from __future__ import annotations

import json
import threading
from pathlib import Path

import pytest
from typer.testing import CliRunner

from gpuwatch.cli import app
from gpuwatch.imports import history
from gpuwatch.imports.history import History
from tests.imports.test_backfill import Nothing
from tests.imports.test_backfill_first_day import Pods


@pytest.mark.parametrize(("days", "expected"), [(2, 0), (4, 1)])
def test_the_first_day_comes_early(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, days: int, expected: int) -> None:
    source = History(Pods(), Nothing(), "id", threading.Event(), lambda: None)
    monkeypatch.setattr(history, "open_history", lambda options, cluster: source)
    words = [
        "scan",
        "http://p:9090",
        "--days",
        str(days),
        "--cluster",
        "c1",
        "--out",
        str(tmp_path),
        "--format",
        "json",
    ]
    done = CliRunner().invoke(app, words)

    assert 0 == done.exit_code, done.output
    assert expected == done.stderr.count(f"Partial, the first of {days} days: This fleet wastes ")
    card = json.loads((tmp_path / "scan.json").read_text("utf-8"))
    assert 24 * days == pytest.approx(float(card["gpu_hours"]), abs=1)
