"""`gpuwatch period` and `gpuwatch audit-log`: on a directory, and through the server that holds it."""

from __future__ import annotations

import json
import shutil
import sqlite3
import zlib
from decimal import Decimal
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

from gpuwatch.billing import chargeback
from gpuwatch.billing.periods import close as periods_close
from gpuwatch.billing.periods.frozen import digest_of
from gpuwatch.billing.periods.repository import Periods
from gpuwatch.cli import app
from gpuwatch.commands.billing.period import _most_expensive
from gpuwatch.policy.ownership import TeamRule
from gpuwatch.policy.repository import replace_team_rules
from gpuwatch.rates.card import Rate
from gpuwatch.rates.repository import replace_rates
from gpuwatch.state import FILE, State
from gpuwatch.store.database import Store
from tests.e2e.process import Server
from tests.worlds.world import H100, HOUR, Gpu, World, claim, minutes, samples, us

AGO = -364 * 24 * HOUR
WEEK = "2025-W45"
RUNNER = CliRunner()


def rate(price: str) -> Rate:
    return Rate(H100, "owned", Decimal(price), us(AGO), None)


@pytest.fixture(scope="module")
def template(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """An hour of a GPU a year ago, half of it held."""
    directory = tmp_path_factory.mktemp("template")
    world = World()
    world.store.close()
    world.store = Store.open(directory, threads=1)
    world.add(
        samples(Gpu(), minutes(AGO, AGO + HOUR)),
        claim("1", AGO, AGO + HOUR / 2, gpus="GPU-a", account="a", user_name="ann"),
    ).book()
    with State.open(directory) as state:
        replace_rates(state, [rate("2")], "test", "rates.csv", us(AGO))
        replace_team_rules(state, [TeamRule("account", "a", "red")], "test", "teams.csv", us(AGO))
        chargeback.price_all(world.store, state)
    world.store.close()
    return directory


@pytest.fixture
def data(template: Path, tmp_path: Path) -> Path:
    """The test's own copy of it."""
    return shutil.copytree(template, tmp_path, dirs_exist_ok=True)


def output_of(data: Path, *arguments: str, code: int = 0) -> str:
    """What a command on the directory prints."""
    done = RUNNER.invoke(app, [*arguments, "--data", str(data)])

    assert code == done.exit_code, done.output
    return done.stdout


def rows(data: Path, *arguments: str, code: int = 0) -> list[dict[str, Any]]:
    """The items of a command's JSON."""
    items: list[dict[str, Any]] = json.loads(output_of(data, *arguments, "--format", "json", code=code))["items"]
    return items


def life(data: Path) -> dict[str, Any]:
    """A period from its closing to its second one, and all that is told of it on the way."""
    assert [] == rows(data, "period", "list")
    output_of(data, "period", "close", WEEK, code=2)
    output_of(data, "period", "close", WEEK, "--force")
    output_of(data, "period", "close", WEEK, "--force", code=2)
    output_of(data, "period", "sign", WEEK, "--name", "Ada", "--note", "agreed")
    output_of(data, "period", "sign", WEEK, "--name", "Bob")
    content = output_of(data, "period", "show", WEEK, "--content")
    shown = json.loads(output_of(data, "period", "show", WEEK, "--format", "json"))
    bill = rows(data, "chargeback", "--window", WEEK, "--by", "team,user")
    output_of(data, "period", "reopen", WEEK, code=2)
    output_of(data, "period", "reopen", WEEK, "--reason", "a rate was wrong")
    output_of(data, "period", "reopen", WEEK, "--reason", "again", code=2)
    output_of(data, "period", "close", WEEK, "--force")
    closings = rows(data, "period", "list")
    return {
        "digest": (digest_of(content), shown["period"]["digest"]),
        "signed": [one["signer"] for one in shown["signatures"]],
        "rows": [(r["team"], r["user"], r["job"], r["cost_exact"]) for r in shown["items"]],
        "bill": [(r["team"], r["user"], r["cost"]) for r in bill],
        "closings": [(one["number"], one["reason"]) for one in closings],
        "verified": [(one["number"], one["holds"]) for one in rows(data, "period", "verify", WEEK)],
        "audit": [entry["what"].split()[-1] for entry in rows(data, "audit-log", "--what", "periods")],
    }


def as_expected(found: dict[str, Any]) -> None:
    digest, shown = found.pop("digest")
    assert digest == shown
    assert found == {
        "signed": ["Ada", "Bob"],
        "rows": [
            ("red", "ann", "1", "1.000000000000"),
            ("__platform__", None, None, "1.000000000000"),
        ],
        "bill": [("red", "ann", "1.00"), ("__platform__", None, "1.00")],
        "closings": [(2, None), (1, "a rate was wrong")],
        "verified": [(2, True), (1, True)],
        "audit": ["closed", "reopened", "signed", "signed", "closed"],
    }


def test_a_period_on_the_command_line(data: Path) -> None:
    as_expected(life(data))


def test_a_period_through_the_server_that_holds_the_directory(data: Path) -> None:
    """The same answers."""
    with Server(data):
        as_expected(life(data))


def test_a_forced_closing_says_so_wherever_it_is_shown(data: Path) -> None:
    """With what was missing; the text of the hash has nothing of it."""
    days = ", ".join(f"2025-11-{day:02d}" for day in range(3, 10))
    why = f"7 days without a whole ledger: {days}"
    foot = f"Period {WEEK}, closing 1, was forced: {why}"
    closed = json.loads(output_of(data, "period", "close", WEEK, "--force", "--format", "json"))["items"][0]
    shown = json.loads(output_of(data, "period", "show", WEEK, "--format", "json"))["period"]
    (listed,) = rows(data, "period", "list")
    tables = [output_of(data, "period", *words, "--format", "table") for words in (["list"], ["show", WEEK])]

    assert [(True, why)] * 3 == [(one["forced"], one["forced_why"]) for one in (closed, shown, listed)]
    assert [True, True] == [foot in table for table in tables]
    assert "forced" not in output_of(data, "period", "show", WEEK, "--content")


def test_what_an_analysis_finds_is_a_correction(data: Path) -> None:
    """`gpuwatch analyze` looks at closed periods; `show --corrections` tells the lines."""
    output_of(data, "period", "close", WEEK, "--force")
    with State.open(data) as state:
        replace_rates(state, [rate("3")], "eve", "rates.csv", us(0))
    output_of(data, "analyze")
    lines = rows(data, "period", "show", WEEK, "--corrections")
    month = rows(data, "chargeback", "--window", "month")

    assert [("0.50", "rates version 2")] * 2 == [(line["cost"], line["why"]) for line in lines]
    assert {("red", "correction"), ("__platform__", "correction")} == {(r["team"], r["kind"]) for r in month}


def test_a_frozen_text_that_was_changed_does_not_hold(data: Path) -> None:
    """Exit code 1: the answer is no."""
    output_of(data, "period", "close", WEEK, "--force")
    with State.open(data) as state:
        text = Periods(state).content(WEEK, 1).replace("ann", "eve")
    with sqlite3.connect(data / FILE) as file:
        file.execute("update period_closing set content = ?", (zlib.compress(text.encode()),))

    assert [False] == [one["holds"] for one in rows(data, "period", "verify", WEEK, code=1)]


def test_whoever_types_is_named(data: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Also where the system knows no name."""
    monkeypatch.setenv("LOGNAME", "ann")
    files = {
        "budget": "team,period,amount,currency\nred,month,1,USD\n",
        "rates": "gpu_model,pricing,usd_per_gpu_hour,valid_from,valid_to\nH100,owned,7,2026-01-01,\n",
    }
    for command, text in files.items():
        file = tmp_path / f"{command}.csv"
        file.write_text(text, "utf-8")
        output_of(data, command, "set", str(file))
    monkeypatch.setattr("getpass.getuser", lambda: {}[""])
    output_of(data, "period", "close", WEEK, "--force")

    assert ["command line", "ann (command line)", "ann (command line)"] == [
        entry["actor"] for entry in rows(data, "audit-log", "--limit", "3")
    ]


def test_whoever_types_is_named_beside_a_server_too(
    data: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("LOGNAME", "ann")
    with Server(data):
        output_of(data, "period", "close", WEEK, "--force")
        entries = rows(data, "audit-log", "--what", "periods")

    assert ["ann (command line)"] == [entry["actor"] for entry in entries]


@pytest.mark.parametrize("form", ["csv", "json", "xlsx", "focus"])
def test_a_missing_folder_is_named_and_not_made(data: Path, tmp_path: Path, form: str) -> None:
    """In every format: a mistyped path leaves nothing behind."""
    out = tmp_path / "nope" / "x.csv"
    arguments = ["chargeback", "--window", WEEK, "--format", form, "--out", str(out), "--data", str(data)]
    done = RUNNER.invoke(app, arguments)

    assert (2, True) == (done.exit_code, f"the folder {out.parent} does not exist" in done.stderr.replace("\n", " "))
    assert not out.parent.exists()


def test_the_audit_log_tells_the_rows_that_changed(data: Path) -> None:
    with State.open(data) as state:
        replace_rates(state, [rate("3")], "eve", "rates.csv", us(0))
        replace_team_rules(state, [], "eve", "teams.csv", us(0))
    newest = rows(data, "audit-log", "--what", "rates", "--limit", "1")[0]
    owners = rows(data, "audit-log", "--what", "teams", "--since", "2026-01-01")
    table = output_of(data, "audit-log", "--format", "table")

    assert ("eve", "3", "2") == (
        newest["actor"],
        newest["difference"]["added"][0]["usd_per_gpu_hour"],
        newest["difference"]["removed"][0]["usd_per_gpu_hour"],
    )
    assert [(0, [{"match_kind": "account", "match": "a", "team": "red"}])] == [
        (entry["difference"]["added_count"], entry["difference"]["removed"]) for entry in owners
    ]
    assert "team=red" in "".join(table.split())


@pytest.mark.parametrize(
    ("arguments", "expected"),
    [
        pytest.param(["period", "show", "2025-W01"], "was never closed", id="no such closing"),
        pytest.param(["period", "close", "lastweek"], "name an ISO week such as 2026-W47", id="no name of a period"),
        pytest.param(["period", "verify", "2025-W01"], "was never closed", id="nothing to verify"),
        pytest.param(["audit-log", "--what", "rats"], "known: budgets, channels", id="no such word"),
        pytest.param(["audit-log", "--since", "x"], "use RFC 3339", id="no time"),
    ],
)
def test_what_is_wrong_is_named(data: Path, arguments: list[str], expected: str) -> None:
    done = RUNNER.invoke(app, [*arguments, "--data", str(data)])

    assert (2, True) == (done.exit_code, expected in " ".join(done.output.split()))


def test_rows_are_shown_most_expensive_first_by_number() -> None:
    """And those without a price last, whatever their text sorts as."""
    costs = ["27.8", None, "3.02", "28.05"]
    found = sorted(({"currency": "USD", "cost_exact": cost} for cost in costs), key=_most_expensive)
    assert ["28.05", "27.8", "3.02", None] == [row["cost_exact"] for row in found]


def test_corrections_are_added_up_by_currency(data: Path) -> None:
    output_of(data, "period", "close", WEEK, "--force")
    assert [] == json.loads(output_of(data, "period", "show", WEEK, "--corrections", "--format", "json"))["total"]
    with Store.open(data, threads=1) as store, State.open(data) as state:
        replace_rates(state, [rate("3")], "test", "rates.csv", us(AGO))
        chargeback.price_all(store, state)
        periods_close.find_corrections(store, state, us(AGO + 14 * 24 * HOUR))
    answer = json.loads(output_of(data, "period", "show", WEEK, "--corrections", "--format", "json"))
    assert [{"cost": "1.00", "currency": "USD"}] == answer["total"]
    table = output_of(data, "period", "show", WEEK, "--corrections", "--format", "table")
    assert "Corrections: 1.00 USD in total" in table
