"""Data directories of earlier versions: today's code opens them, answers what that version answered, and goes on."""

from __future__ import annotations

import gzip
import json
import shutil
import signal
import sqlite3
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from urllib.parse import quote

import pytest
from typer.testing import CliRunner

from gpuwatch.cli import app
from gpuwatch.state import State
from gpuwatch.state.core import SCHEMA
from gpuwatch.store.database import FILE_NAME, Store
from tests.e2e.process import CHECKOUT, Server, gpu_labels, now_ms
from tests.worlds.patience import PATIENCE_S, wait_until

RELEASED = CHECKOUT / "tests/data/upgrade"
VERSIONS = sorted(path.name for path in RELEASED.iterdir() if path.is_dir())
STATE = "state.sqlite"
STATE_BEFORE_THE_SERVICE = "0001"
SERVICE_TABLES = ("token", "finding_action", "channel", "outbox", "alert_mark")
FIXTURE_BYTES_MAX = 400_000
STORE_TABLES = "select table_name from duckdb_tables() where not temporary order by 1"
RUNNER = CliRunner()
KILLED_AFTER_TABLES = """
import os, signal, sys
from alembic import op
from gpuwatch.state import State

made, left = op.create_table, int(sys.argv[2])

def create_table(*arguments, **options):
    global left
    table = made(*arguments, **options)
    left -= 1
    if left == 0:
        os.kill(os.getpid(), signal.SIGKILL)
    return table

op.create_table = create_table
State.open(sys.argv[1])
"""
KILLED_BEFORE_COMMIT = """
import os, signal, sys
from gpuwatch.store.database import Store

run = Store.run

def killed(self, name, /, **parameters):
    run(self, name, **parameters)
    if name.startswith("schema/"):
        os.kill(os.getpid(), signal.SIGKILL)

Store.run = killed
Store.open(sys.argv[1])
"""

Answers = dict[str, Any]


def unpacked(version: str, stage: str, into: Path) -> Path:
    """A copy of a released data directory."""
    directory = into / f"{version}-{stage}"
    directory.mkdir(parents=True)
    for name in (FILE_NAME, STATE):
        with gzip.open(RELEASED / version / f"{stage}.{name}.gz") as packed, (directory / name).open("wb") as plain:
            shutil.copyfileobj(packed, plain)
    return directory


def released_answers(version: str) -> Answers:
    found: Answers = json.loads((RELEASED / version / "said.json").read_text("utf-8"))
    return found


def answer(*arguments: str | Path) -> Any:
    result = RUNNER.invoke(app, [str(argument) for argument in arguments])
    assert 0 == result.exit_code, result.output
    return json.loads(result.stdout)


def books(expected: Answers) -> Answers:
    return {name: expected[name] for name in ("chargeback", "ledger")}


def books_now(directory: Path, expected: Answers) -> Answers:
    window = ["--window", expected["window"], "--data", str(directory)]
    return {name: {by: answer(name, "--by", by, *window) for by in asked} for name, asked in books(expected).items()}


def amounts(answers: Answers) -> Answers:
    """What must never change: who has how much, and the sums; not the order of rows or further columns."""
    found = {}
    for name, by_dimension in answers.items():
        for by, entry in by_dimension.items():
            keys = [*by.split(","), "gpu_seconds", *(["cost", "kind"] if name == "chargeback" else [])]
            rows = sorted([str(item.get(key)) for key in keys] for item in entry["items"])
            found[f"{name} {by}"] = (rows, entry.get("total"), entry.get("capacity_gpu_seconds"))
    return found


def shown(findings: list[Answers], expected: list[Answers]) -> list[Answers]:
    names = sorted({name for finding in expected for name in finding})
    return sorted(({name: f[name] for name in names} for f in findings), key=lambda f: str(f["key"]))


def revision(directory: Path) -> str:
    with sqlite3.connect(directory / STATE) as connection:
        found: str = connection.execute("select version_num from alembic_version").fetchone()[0]
    return found


def tables(directory: Path) -> set[str]:
    with sqlite3.connect(directory / STATE) as connection:
        return {row[0] for row in connection.execute("select name from sqlite_master where type = 'table'")}


def migrated(directory: Path) -> list[tuple[Any, ...]]:
    with Store.open(directory, create=False) as store, State.open(directory):
        return store.sql("select version, name, applied_us from schema_migration order by version")


def killed(program: str, *arguments: str) -> None:
    done = subprocess.run(
        [sys.executable, "-c", program, *arguments], cwd=CHECKOUT, capture_output=True, timeout=PATIENCE_S, check=False
    )
    assert -signal.SIGKILL == done.returncode, done.stderr.decode()


@pytest.fixture(params=VERSIONS)
def version(request: pytest.FixtureRequest) -> Iterator[str]:
    yield request.param


@pytest.fixture(autouse=True)
def teams_by_rules_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    """As version 0.1.0 did it: without a rule, time had no team."""
    monkeypatch.setenv("GPUWATCH_OWNERSHIP_DEFAULT", "none")


def test_without_a_rule_time_moves_to_inferred_teams_and_the_total_stays(
    version: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    directory, expected = unpacked(version, "analyzed", tmp_path), released_answers(version)
    monkeypatch.setenv("GPUWATCH_OWNERSHIP_DEFAULT", "inferred")
    now = answer("chargeback", "--by", "team", "--window", expected["window"], "--data", directory)

    assert expected["chargeback"]["team"]["total"] == now["total"]
    assert any(item["inferred"] for item in now["items"])
    assert "__unallocated__" not in {item["team"] for item in now["items"] if item["inferred"]}


def test_the_fixtures_of_a_version_stay_small(version: str) -> None:
    assert FIXTURE_BYTES_MAX > sum(path.stat().st_size for path in (RELEASED / version).iterdir())


def test_its_bills_and_ledger_are_what_it_answered(version: str, tmp_path: Path) -> None:
    directory, expected = unpacked(version, "analyzed", tmp_path), released_answers(version)

    assert amounts(books(expected)) == amounts(books_now(directory, expected))
    assert shown(expected["findings"], expected["findings"]) == shown(
        answer("findings", "--data", directory)["items"], expected["findings"]
    )


def test_analysing_what_it_analysed_changes_no_answer(version: str, tmp_path: Path) -> None:
    directory, expected = unpacked(version, "analyzed", tmp_path), released_answers(version)
    answer("analyze", "--data", directory)

    assert amounts(books(expected)) == amounts(books_now(directory, expected))
    found = {f["key"]: f for f in answer("findings", "--data", directory)["items"]}
    before = {f["key"] for f in expected["findings"]}
    assert set() == before - found.keys()
    # Devices that were never measured are a finding of their node since then, and no longer one of each job.
    assert {("blind-spot", "node", "open")} == {
        (f["detector"], f["subject"]["kind"], f["state"]) for key, f in found.items() if key not in before
    }
    assert {("job", "resolved")} == {
        (found[key]["subject"]["kind"], found[key]["state"]) for key in before if found[key]["detector"] == "blind-spot"
    }


def test_what_it_only_imported_is_analysed_to_the_same_books(version: str, tmp_path: Path) -> None:
    directory, expected = unpacked(version, "imported", tmp_path), released_answers(version)
    assert [] == answer("analyze", "--data", directory)["items"][0]["failed_rules"]

    assert amounts(books(expected)) == amounts(books_now(directory, expected))


def test_migrations_run_once(version: str, tmp_path: Path) -> None:
    directory = unpacked(version, "analyzed", tmp_path)
    first = migrated(directory)
    cards = tables(directory)
    second = migrated(directory)

    assert first == second
    assert SCHEMA == revision(directory)
    assert set(SERVICE_TABLES) <= cards == tables(directory)


@pytest.mark.parametrize("made", [1, len(SERVICE_TABLES)], ids=["after the first table", "after five tables"])
def test_a_migration_of_the_state_that_is_killed_is_as_if_not_begun(made: int, tmp_path: Path) -> None:
    directory = unpacked("0.1.0", "analyzed", tmp_path)
    before = tables(directory)
    killed(KILLED_AFTER_TABLES, str(directory), str(made))

    assert (STATE_BEFORE_THE_SERVICE, before) == (revision(directory), tables(directory))
    with State.open(directory) as state:
        assert 1 == state.card_version("rates")
    assert SCHEMA == revision(directory)


def test_a_first_migration_of_the_store_that_is_killed_is_as_if_not_begun(tmp_path: Path) -> None:
    directory = tmp_path / "new"
    killed(KILLED_BEFORE_COMMIT, str(directory))

    assert [] == raw(directory, "select version from schema_migration")
    assert [("schema_migration",)] == raw(directory, STORE_TABLES)
    assert len(migrated(directory)) > 0


def test_a_later_migration_of_the_store_that_is_killed_is_as_if_not_begun(tmp_path: Path) -> None:
    directory = unpacked("0.1.0", "analyzed", tmp_path)
    before = raw(directory, STORE_TABLES)
    killed(KILLED_BEFORE_COMMIT, str(directory))

    assert [(1,)] == raw(directory, "select version from schema_migration")
    assert before == raw(directory, STORE_TABLES)
    assert [1, 2] == [version for version, _, _ in migrated(directory)][:2]


def raw(directory: Path, query: str) -> list[tuple[Any, ...]]:
    """What a store holds, read without migrating it."""
    program = "import duckdb, json, sys; c = duckdb.connect(sys.argv[1]); print(json.dumps(c.execute(sys.argv[2]).fetchall()))"
    arguments = [sys.executable, "-c", program, str(directory / FILE_NAME), query]
    done = subprocess.run(arguments, capture_output=True, text=True, timeout=PATIENCE_S, check=True)
    return [tuple(row) for row in json.loads(done.stdout)]


def test_a_server_on_it_answers_the_same_bill_and_takes_samples(version: str, tmp_path: Path) -> None:
    directory, expected = unpacked(version, "analyzed", tmp_path), released_answers(version)
    with Server(directory, analyze_interval_s=3600, ownership_default="none") as server:
        assert 204 == server.write([(gpu_labels("GPU-new"), [(0.5, now_ms())])]).status
        wait_until(lambda: bool(server.ask("GET", "/readyz").json["analyzer"]["lag_s"]), "a first pass")
        found = bill(server, expected)

        assert amounts({"chargeback": {"team": expected["chargeback"]["team"]}}) == amounts(found)


def test_the_first_bill_after_an_upgrade_is_right(tmp_path: Path) -> None:
    directory, expected = unpacked("0.1.0", "analyzed", tmp_path), released_answers("0.1.0")
    with Server(directory, analyze_interval_s=3600, ownership_default="none") as server:
        found = bill(server, expected)

        assert amounts({"chargeback": {"team": expected["chargeback"]["team"]}}) == amounts(found)


def bill(server: Server, expected: Answers) -> Answers:
    """What a server charges the teams, in the window of what was said."""
    answer = server.ask("GET", f"/api/v1/chargeback?by=team&window={quote(expected['window'])}")
    assert 200 == answer.status, answer.body
    return {"chargeback": {"team": answer.json}}
