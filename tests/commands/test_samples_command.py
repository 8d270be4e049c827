"""`gpuwatch samples`: what it prints, and how it refuses."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from gpuwatch.cli import run
from gpuwatch.state import State
from gpuwatch.store.database import Store
from tests.store.test_sample_files import put_two_days


def test_it_lists_the_files_and_writes_nothing_twice(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    data, target = tmp_path / "data", tmp_path / "out"
    with Store.open(data) as store, State.open(data):
        put_two_days(store)

    shown = []
    for _ in range(2):
        assert 0 == run(["samples", str(target), "--data", str(data), "--format", "json"])
        shown.append(json.loads(capsys.readouterr().out)["items"])

    assert [("c1", "2026-11-02", 3, "written"), ("c1", "2026-11-03", 1, "written")] == [
        (row["cluster"], row["day"], row["samples"], row["result"]) for row in shown[0]
    ]
    assert ["unchanged", "unchanged"] == [row["result"] for row in shown[1]]
    assert [Path(row["file"]).stat().st_size for row in shown[0]] == [row["bytes"] for row in shown[0]]


def test_a_store_without_samples_says_what_to_do(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    with Store.open(tmp_path / "data"), State.open(tmp_path / "data"):
        pass

    assert 0 == run(["samples", str(tmp_path / "out"), "--data", str(tmp_path / "data"), "--format", "table"])
    assert "No sealed samples: run gpuwatch analyze first" in capsys.readouterr().out


def test_a_target_inside_the_data_directory_is_refused(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    with Store.open(tmp_path / "data"), State.open(tmp_path / "data"):
        pass

    assert 2 == run(["samples", str(tmp_path / "data" / "out"), "--data", str(tmp_path / "data")])
    assert "use a directory outside it" in capsys.readouterr().err
