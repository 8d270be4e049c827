"""Who gets reports by e-mail: the file, and the commands that set and show it."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from typer.testing import CliRunner

from gpuwatch.alerts.delivery.destination_guard import Guard
from gpuwatch.alerts.outbox.repository import Outbox
from gpuwatch.alerts.report_recipients import parse, replace
from gpuwatch.alerts.repository import Channels
from gpuwatch.cli import app
from gpuwatch.core.clock import DAY_US, HOUR_US
from gpuwatch.core.errors import UsageError
from gpuwatch.service.after_pass import AlertConfig, Alerting
from gpuwatch.settings import Settings
from gpuwatch.store.database import Store
from tests.report.test_weekly import Fleet
from tests.worlds.world import T0_US

RUNNER = CliRunner()


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        pytest.param("", "f.csv:1: the header is ''; write team,to", id="an empty file"),
        pytest.param("team,mail\na,x\n", "f.csv:1: the header is 'team,mail'", id="another header"),
        pytest.param("team,to\na,\n", "f.csv:2: give a team and an address", id="no address"),
        pytest.param("team,to\na,b@c.d,e@f.g\n", "f.csv:2: give a team", id="a comma between addresses"),
        pytest.param("team,to\n\xe9,x\n".encode("latin-1"), "is no CSV in UTF-8", id="no UTF-8"),
    ],
)
def test_a_bad_file_is_named_with_its_line(text: str | bytes, expected: str) -> None:
    with pytest.raises(UsageError) as caught:
        parse(text.encode() if isinstance(text, str) else text, "f.csv")

    assert expected in str(caught.value)


def test_addresses_of_a_team_are_joined() -> None:
    content = b"\xef\xbb\xbfto,team\na@x.io; b@x.io,red\nf@x.io,*\nc@x.io,red\n"

    assert [{"team": "red", "to": ["a@x.io", "b@x.io", "c@x.io"]}, {"team": "*", "to": ["f@x.io"]}] == parse(
        content, "f.csv"
    )


def test_recipients_on_the_command_line(tmp_path: Path) -> None:
    """Set, set again, refused whole, shown."""
    Store.open(tmp_path / "data", threads=1).close()
    file, where = tmp_path / "recipients.csv", ["--data", str(tmp_path / "data")]
    file.write_text("team,to\nvision,a@example.com b@example.com\n*,f@example.com\n", "utf-8")
    done = [RUNNER.invoke(app, ["report", "recipients", "set", str(file), *where]) for _ in range(2)]
    file.write_text("team,to\nvision,nobody\n", "utf-8")
    refused = RUNNER.invoke(app, ["report", "recipients", "set", str(file), *where])
    shown = RUNNER.invoke(app, ["report", "recipients", "show", *where, "--format", "json"])

    assert ["2 teams with recipients, version 1\n", "2 teams with recipients, version 1, unchanged\n"] == [
        one.stdout for one in done
    ]
    assert (2, True) == (refused.exit_code, "'nobody' is not an address" in " ".join(refused.output.split()))
    assert [
        {"team": "*", "to": "f@example.com"},
        {"team": "vision", "to": "a@example.com b@example.com"},
    ] == json.loads(shown.stdout)["items"]


def test_a_team_that_gets_an_address_later_gets_the_last_week(tmp_path: Path) -> None:
    """The first start had nobody to mail to; a week later it would be too late."""
    fleet, now_us = Fleet(tmp_path).analyse(), T0_US + 7 * DAY_US + 25 * HOUR_US
    mail = {"name": "ops", "kind": "email", "host": "127.0.0.1", "port": 1, "security": "none", "from": "g@example.com"}
    Channels(fleet.state, Guard.of(["127.0.0.1"])).put({**mail, "to": [], "events": ["report"]}, "ann", T0_US)
    settings = Settings(report_directory=str(tmp_path / "out"))
    alerting = Alerting(fleet.state, AlertConfig([], []), lambda: now_us, lambda: "", settings, lambda *_: None)
    waiting = []
    for rows in ([], [{"team": "cows", "to": ["c@example.com"]}], [{"team": "ants", "to": ["a@example.com"]}]):
        replace(fleet.state, rows, "ann", "test", now_us)
        alerting.after_pass(fleet.world.store)
        waiting.append(Outbox(fleet.state).waiting())

    assert [frozenset(), frozenset(), {"ops"}] == waiting
