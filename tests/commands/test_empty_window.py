"""A window without GPU time says when the data ends; tables say what a finding does not claim, and how to name it."""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import pytest
from typer.testing import CliRunner

from gpuwatch.cli import app
from gpuwatch.commands import hints, queries
from gpuwatch.commands import reclaim as reclaim_command
from gpuwatch.commands.advice import backtest
from gpuwatch.core.clock import DAY_US, Window
from gpuwatch.findings import read as findings_read
from gpuwatch.reclaim import state as reclaim_state
from gpuwatch.store import lockfile
from tests.worlds.alerts import finding
from tests.worlds.detectors import WORK, World, us

KNOWN = Window(us(0), us(180))
"""The whole hours that the books know of two hours of work, and the hour that the last sample reaches into."""
HINT = (
    "No GPU time in this window; data ends at 2026-01-05T03:00:00Z: "
    "try --window 2026-01-05T00:00:00Z,2026-01-05T03:00:00Z\n"
)
AWAY, WITHIN = "2026-11-09T00:00:00Z,2026-11-16T00:00:00Z", "2026-01-05T00:00:00Z,2026-01-05T02:00:00Z"


@pytest.fixture(scope="module")
def world(tmp_path_factory: pytest.TempPathFactory) -> World:
    """A GPU that worked for two hours."""
    made = World(tmp_path_factory.mktemp("world")).gpu("GPU-a", (120, WORK))
    made.analyze(600, detectors=["idle-hoarding"])
    return made


@pytest.fixture
def command(world: World, monkeypatch: pytest.MonkeyPatch) -> Any:
    """Runs a command on that world: its exit code, standard output and standard error."""

    @contextmanager
    def opened(*_: object, **__: object) -> Iterator[Any]:
        yield world.store, world.state, world.settings

    for module in (queries, backtest, reclaim_command):
        monkeypatch.setattr(module, "opened", opened)

    def run(*arguments: str) -> tuple[int, str, str]:
        result = CliRunner().invoke(app, list(arguments))
        return result.exit_code, result.stdout, result.stderr

    return run


def test_a_window_that_the_ledger_does_not_fill_says_where_it_ends(command: Any) -> None:
    for asked in ("chargeback", "ledger"):
        _, filled, _ = command(asked, "--window", WITHIN, "--format", "table")
        _, longer, _ = command(asked, "--window", "2026-01", "--format", "table")

        assert "The ledger" not in filled
        assert (
            "The ledger begins at 2026-01-05 00:00 and ends at 2026-01-05 03:00 UTC: the rest of the window is not in it"
            in longer
        )


def test_a_label_that_no_job_has_is_named_with_those_that_there_are(command: Any) -> None:
    _, shown, doubt = command("chargeback", "--window", WITHIN, "--by", "label:tema", "--format", "table")

    assert "Platform" in shown
    assert doubt.startswith("--by label:tema: no job of this window has this label; ")
    assert "" == command("chargeback", "--window", WITHIN, "--by", "team", "--format", "table")[2]


ASKED = (["chargeback"], ["ledger"], ["backtest", "idle-hoarding"])


@pytest.mark.parametrize("form", ["table", "json"])
@pytest.mark.parametrize("asked", ASKED, ids=lambda asked: asked[0])
def test_a_window_with_gpu_time_says_no_more(command: Any, asked: list[str], form: str) -> None:
    code, _, errors = command(*asked, "--window", WITHIN, "--format", form)

    assert (0, "") == (code, errors)


@pytest.mark.parametrize("form", ["table", "json"])
@pytest.mark.parametrize("asked", ASKED, ids=lambda asked: asked[0])
def test_a_window_without_gpu_time_says_where_some_is(command: Any, asked: list[str], form: str) -> None:
    code, output, errors = command(*asked, "--window", AWAY, "--format", form)

    assert (0, HINT) == (code, errors)
    if form == "json":
        assert [] == json.loads(output)["items"]


def test_a_long_history_proposes_its_last_week() -> None:
    line = hints.empty_words(Window(us(0) - 30 * DAY_US, us(180)))

    assert line.endswith("try --window 2025-12-29T03:00:00Z,2026-01-05T03:00:00Z")


def test_empty_books_say_so() -> None:
    assert "the ledger is empty" in hints.empty_words(None)


def test_a_server_says_when_its_data_ends(monkeypatch: pytest.MonkeyPatch) -> None:
    note = lockfile.Note(1, "http://127.0.0.1:1", "secret")
    monkeypatch.setattr(hints.remote, "get", lambda *_: b'{"as_of": "2026-01-05T03:00:00Z"}')

    assert hints.empty_served(note, "1.000000") is None
    assert "data ends at 2026-01-05T03:00:00Z" in (hints.empty_served(note, "0.000000") or "")


def test_a_table_of_findings_has_no_cost_where_none_is_claimed(command: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    """Programs read what the API says; unknown money is no claim of none."""
    listed = [
        finding("idle-0"),
        finding("blind-1", currency=None, wasted_cost="0.00", wasted_gpu_seconds="0.000000"),
        finding("unpriced-2", currency=None, wasted_cost=None),
    ]
    monkeypatch.setattr(findings_read, "read", lambda *_, **__: listed)

    _, table, _ = command("findings", "--format", "table")
    _, text, _ = command("findings", "--format", "json")

    assert " 480.00 " in table
    assert " - " in table
    assert " 0.00 " not in table
    assert ["480.00", "0.00", None] == [item["wasted_cost"] for item in json.loads(text)["items"]]
    assert [queries.NOT_CLAIMED, None] == [queries._wasted(one.as_dict()) for one in listed[1:]]


def test_a_table_of_findings_has_their_keys_or_says_where_they_are(
    command: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(findings_read, "read", lambda *_, **__: [finding("idle-hoarding-0a1b2c3d")])
    wide = command("findings", "--format", "table")[1]
    monkeypatch.setattr("gpuwatch.output.terminal.PIPED_WIDTH", 80)
    narrow = command("findings", "--format", "table")[1]

    assert "idle-hoarding-0a1b2c3d" in wide
    assert "Columns not shown: key, detector; --format json has all." in narrow


def test_a_table_of_findings_says_what_happens_to_whom(command: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    """A site's own rules have no such sentence: the subject and the summary stand for it."""
    listed = [finding("a", headline="train-llm (job 4711) of team red holds 8 idle GPUs"), finding("b")]
    monkeypatch.setattr(findings_read, "read", lambda *_, **__: listed)

    every, opened = command("findings", "--format", "table")[1], command("findings", "--open", "--format", "table")[1]
    text = " ".join(every.split())
    assert "train-llm (job 4711) of team red holds 8 idle GPUs" in text
    assert "4711: 8 of 8 devices idle: 192 device-hours in 1 idle run." in text
    assert (True, False) == (" state " in every, " state " in opened)


def test_no_line_to_paste_is_shown(command: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(reclaim_state, "proposals", lambda *_, **__: [])

    code, output, errors = command("reclaim", "--commands")

    assert (0, "") == (code, output)
    assert errors.startswith("No job has a recommended command")
