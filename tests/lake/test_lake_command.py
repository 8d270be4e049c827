"""`gpuwatch lake`: from a published directory to plain files, with the words that people see."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from gpuwatch.store.database import Store
from tests.lake.conftest import START_US, Fleet, Make
from tests.lake.publishing import config
from tests.worlds import processes


def test_publish_check_and_take_out(make_lake: Make, fleet: Fleet, tmp_path: Path) -> None:
    file = config(make_lake("postgresql"), tmp_path)

    def lake(*arguments: str | Path, code: int = 0) -> Any:
        ran = processes.run(("lake", *arguments, "--config", file, "--format", "json"))
        assert (code, "Traceback") == (ran.returncode, "Traceback" * ("Traceback" not in ran.stderr)), ran.stderr
        return json.loads(ran.stdout)["items"] if ran.stdout else ran.stderr

    data = ("--data", fleet.directory)
    assert "gpuwatch lake publish makes it" in lake("status", code=3)
    (published,) = lake("publish", *data)
    assert ("east", 0) == (published["cell"], published["removed"]) and 50 < published["tables"]
    assert [0, 0] == [lake("publish", *data)[0][name] for name in ("tables", "rows")]
    (cell,) = lake("status")
    assert ("east", published["rows"], "2026-11-03", 1) == (
        cell["cell"],
        cell["rows"],
        cell["newest_day"],
        cell["epoch"],
    )

    checked = lake("verify", *data)
    assert {"equal"} == {row["result"] for row in checked} and published["rows"] == sum(row["rows"] for row in checked)
    with Store.open(fleet.directory) as store:
        store.sql("delete from book_day where day_us = $day", day=START_US)
    (late,) = [row for row in lake("verify", *data, code=1) if row["differing"]]
    assert ("book_day", "late", "2026-11-02", 0) == tuple(
        late[name] for name in ("table", "result", "day", "store_rows")
    )
    assert late["first"].startswith("only in the lake: {")

    assert 0 <= lake("maintain")[0]["files_after"]
    written = lake("export", "--to", tmp_path / "out", "--table", "run")
    assert ["run"] == [row["table"] for row in written] and (tmp_path / "out" / "run.parquet").stat().st_size
    assert "no cell nosuch" in lake("export", "--to", tmp_path / "other", "--cell", "nosuch", code=2)


def test_hours_are_computed_again_from_the_lake(make_lake: Make, fleet: Fleet, tmp_path: Path) -> None:
    """Whatever the settings: the lake has both days. A window ends where it is told to."""
    file = config(make_lake("duckdb"), tmp_path)

    def rebook(*arguments: str, code: int = 0) -> Any:
        options = ("--data", fleet.directory, "--config", file, "--format", "json")
        ran = processes.run(("lake", "rebook", *arguments, *options))
        assert (code, False) == (ran.returncode, "Traceback" in ran.stderr), ran.stderr
        return json.loads(ran.stdout)["items"][0] if ran.stdout else ran.stderr

    done = rebook("--since", "2026-11-02T06:00:00Z", "--until", "2026-11-02T08:00:00Z")
    assert ("east", 2, 1, 1, []) == tuple(done[name] for name in ("cell", "hours", "days", "tasks", "failed_rules"))
    assert 36 == rebook()["hours"]
    assert "--since" in rebook("--since", "yesterday, maybe", code=2)


def test_without_a_lake_the_settings_are_named(tmp_path: Path) -> None:
    ran = processes.run(("lake", "status"), cwd=tmp_path)

    assert 2 == ran.returncode
    assert "no lake is configured: write [lake] with catalogue, data, cell into gpuwatch.toml" in ran.stderr
