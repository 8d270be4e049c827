"""The command line on a tiny simulated fleet: answers that add up, exit codes, one line an error."""

from __future__ import annotations

import json
import shlex
import socket
import subprocess
import sys
from decimal import Decimal
from pathlib import Path
from typing import Any

import pytest
import typer
from typer.testing import CliRunner

from gpuwatch.cli import app, run
from gpuwatch.commands.examples import EXAMPLES
from gpuwatch.core.clock import parse_rfc3339, parse_window
from gpuwatch.core.errors import UsageError
from gpuwatch.simulate import simulate
from gpuwatch.store.database import Store
from tests.worlds.patience import PATIENCE_S

WINDOW = "2026-11-09T00:00:00Z,2026-11-09T12:00:00Z"
HOLD = "import sys; from gpuwatch.store.database import Store; s = Store.open(sys.argv[1]); print('held', flush=True); sys.stdin.read()"
RUNNER = CliRunner()


def gpuwatch(*arguments: str | Path) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-m", "gpuwatch", *map(str, arguments)],
        capture_output=True,
        text=True,
        check=False,
        timeout=PATIENCE_S,
    )


@pytest.fixture(scope="module")
def bundle(tmp_path_factory: pytest.TempPathFactory) -> Path:
    out = tmp_path_factory.mktemp("cli") / "bundle"
    simulate(out, gpus=8, days=0.5, seed=1, step_s=60)
    return out


@pytest.fixture(scope="module")
def data(bundle: Path) -> Path:
    place = bundle.parent / "data"
    for arguments in (["import", "bundle", str(bundle)], ["analyze"]):
        result = RUNNER.invoke(app, [*arguments, "--data", str(place)])
        assert 0 == result.exit_code, result.output
    return place


def answer(*arguments: str | Path) -> Any:
    result = RUNNER.invoke(app, [str(a) for a in arguments])
    assert 0 == result.exit_code, result.output
    return json.loads(result.stdout)


def test_team_rows_add_up_to_the_bill(data: Path) -> None:
    bill = answer("chargeback", "--data", data, "--window", WINDOW)

    assert Decimal(bill["total"]["cost"]) == sum(Decimal(i["cost"]) for i in bill["items"])
    assert Decimal(8 * 12 * 3600) == Decimal(bill["total"]["gpu_seconds"])
    assert Decimal(bill["total"]["gpu_seconds"]) == sum(Decimal(i["gpu_seconds"]) for i in bill["items"])
    assert {"start": "2026-11-09T00:00:00Z", "end": "2026-11-09T12:00:00Z"} == bill["window"]


def test_buckets_add_up_to_capacity(data: Path) -> None:
    books = answer("ledger", "--data", data, "--window", WINDOW, "--by", "team,bucket")

    assert Decimal(8 * 12 * 3600) == Decimal(books["capacity_gpu_seconds"])
    assert Decimal(books["capacity_gpu_seconds"]) == sum(Decimal(i["gpu_seconds"]) for i in books["items"])


def test_findings_come_most_expensive_first(data: Path) -> None:
    every = answer("findings", "--data", data)["items"]
    still = answer("findings", "--data", data, "--open")["items"]
    costs = [Decimal(f["wasted_cost"] or 0) for f in every]

    assert sorted(costs, reverse=True) == costs
    assert [f["key"] for f in every if f["state"] == "open"] == [f["key"] for f in still]


def test_importing_again_changes_nothing(bundle: Path, data: Path) -> None:
    before = answer("chargeback", "--data", data, "--window", WINDOW)
    (again,) = answer("import", "bundle", bundle, "--data", data)["items"]

    assert 0 == again["files"]
    assert before == answer("chargeback", "--data", data, "--window", WINDOW)


@pytest.mark.parametrize(
    ("arguments", "code", "word"),
    [
        pytest.param(["findings", "--data", "absent"], 3, "absent", id="no data directory"),
        pytest.param(["ledger", "--window", "someday"], 2, "someday", id="unknown window"),
        pytest.param(["reconcile", "--window", "2026-02-30"], 2, "a day 2026-11-21", id="no such day"),
        pytest.param(
            ["chargeback", "--window", "7d", "--format", "focus", "--focus-version", "1.3"],
            2,
            "1.2 or 1.4",
            id="unknown version of FOCUS",
        ),
        pytest.param(["import", "tarot", "x"], 2, "tarot", id="unknown kind"),
        pytest.param(["import", "sacct", "absent.txt"], 2, "absent.txt", id="missing file"),
    ],
)
def test_an_error_is_one_line(arguments: list[str], code: int, word: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert code == run(arguments)
    printed = capsys.readouterr()
    assert "" == printed.out
    (line,) = printed.err.splitlines()
    assert line.startswith("gpuwatch: ")
    assert word in line


def test_data_in_use_names_its_holder(data: Path) -> None:
    with subprocess.Popen(
        [sys.executable, "-c", HOLD, str(data)], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    ) as holder:
        assert holder.stdin is not None and holder.stdout is not None
        assert "held\n" == holder.stdout.readline()
        result = gpuwatch("findings", "--data", data)
        holder.stdin.close()

    assert 3 == result.returncode
    assert f"process {holder.pid}" in result.stderr


def test_a_reader_that_leaves_is_no_error(data: Path) -> None:
    command = f"{sys.executable} -m gpuwatch findings --data {data} | head -c 1"
    result = subprocess.run(["sh", "-c", command], capture_output=True, text=True, check=False, timeout=PATIENCE_S)

    assert "" == result.stderr


def test_doctor_says_no_with_exit_code_one(data: Path) -> None:
    result = RUNNER.invoke(app, ["doctor", "--data", str(data)])

    assert 1 == result.exit_code
    assert "fail" in {item["status"] for item in json.loads(result.stdout)["items"]}


SACCT = "JobID|State|Start|End|NodeList|AllocTRES\n"
BAD_ROW = "x|COMPLETED|2026-11-21T02:00:00|2026-11-21T03:00:00|n1|gres/gpu=1\n"
GOOD_ROW = "1|COMPLETED|2026-11-21T02:00:00|2026-11-21T03:00:00|n1|gres/gpu=1\n"


@pytest.mark.parametrize(
    ("rows", "code"), [(BAD_ROW, 2), (BAD_ROW + GOOD_ROW, 0), ("", 0)], ids=["no good row", "one good row", "no rows"]
)
def test_an_import_fails_when_there_are_rows_and_none_is_good(
    tmp_path: Path, rows: str, code: int, capsys: pytest.CaptureFixture[str]
) -> None:
    """With the reason; a file with only a header is complete."""
    (tmp_path / "sacct.txt").write_text(SACCT + rows)

    assert code == run(["import", "sacct", str(tmp_path / "sacct.txt"), "--data", str(tmp_path / "data")])
    assert ("JobID is not a job number" in capsys.readouterr().err) == (BAD_ROW in rows)


def test_a_card_of_a_bundle_without_a_good_row_fails(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """The jobs are imported all the same."""
    bundle = tmp_path / "bundle"
    (bundle / "slurm").mkdir(parents=True)
    (bundle / "slurm" / "sacct.txt").write_text(SACCT + GOOD_ROW)
    (bundle / "teams.csv").write_text("match_kind,match,team\nnonsense,x,\n")

    assert 2 == run(["import", "bundle", str(bundle), "--data", str(tmp_path / "data")])
    assert "teams.csv: no valid row; the previous rows remain in force" in capsys.readouterr().err


def test_the_demo_runs_twice(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    arguments = ["demo", "--gpus", "8", "--days", "0.5", "--no-serve", "--data", str(tmp_path / "demo")]
    monkeypatch.setattr("gpuwatch.cli._now_us", lambda: parse_rfc3339("2026-03-02T10:00:00Z"))
    first, second = RUNNER.invoke(app, arguments), RUNNER.invoke(app, arguments)

    assert (0, 0) == (first.exit_code, second.exit_code), second.output
    assert first.stdout.partition("Took")[0] == second.stdout.partition("Took")[0]
    with Store.open(tmp_path / "demo", create=False) as store:
        assert [(0,)] == store.sql("select count(*) from dirty_hour")


@pytest.mark.parametrize("command", ["demo", "serve"])
def test_a_taken_port_is_named_before_any_work(tmp_path: Path, command: str) -> None:
    with socket.create_server(("127.0.0.1", 0)) as other:
        port = str(other.getsockname()[1])
        result = RUNNER.invoke(app, [command, "--port", port, "--data", str(tmp_path / "demo")])

    assert isinstance(result.exception, SystemExit) and 3 == result.exit_code
    assert "cannot listen" in result.output
    assert not (tmp_path / "demo").exists()


def test_a_bundle_is_not_mixed_with_another(tmp_path: Path) -> None:
    (tmp_path / "truth.json").write_text("{}")
    result = RUNNER.invoke(app, ["simulate", "--out", str(tmp_path), "--gpus", "8", "--days", "0.25"])

    assert 2 == result.exit_code
    assert "is not empty" in result.output


def test_every_mistake_of_the_configuration_is_reported_at_once(tmp_path: Path) -> None:
    config = tmp_path / "gpuwatch.toml"
    config.write_text(
        '[gpuwatch]\nidle_minutes = 0\n[[dcgm]]\ntragets = []\n[[channel]]\nname = "a b"\nurl_file = "none"\n'
    )
    result = RUNNER.invoke(app, ["serve", "--config", str(config), "--data", str(tmp_path / "data")])

    assert 2 == result.exit_code
    assert [True] * 4 == [w in result.output for w in ("idle_minutes", "tragets", "name must be", "url_file none")]


def test_a_query_that_ctrl_c_ends_is_an_interruption(monkeypatch: pytest.MonkeyPatch) -> None:
    def query(*_: object, **__: object) -> None:
        raise RuntimeError("Query interrupted")

    monkeypatch.setattr("gpuwatch.cli.app", query)

    assert 130 == run(["analyze"])


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        pytest.param("2026-46", "window '2026-46': there is no such month or day; a month is", id="a week without W"),
        pytest.param("2026-02-30", "window '2026-02-30': there is no such month or day; a month is", id="no such day"),
        pytest.param(
            "2026-W60", "window '2026-W60': Invalid week: 60; a month is written", id="a week that no year has"
        ),
    ],
)
def test_a_wrong_window_says_what_a_week_looks_like(text: str, expected: str) -> None:
    with pytest.raises(UsageError) as captured:
        parse_window(text, 0)
    assert str(captured.value).startswith(expected)
    assert "2026-W46" in str(captured.value)


def test_a_date_is_a_day_in_utc() -> None:
    assert parse_window("2026-11-21T00:00:00Z,2026-11-22T00:00:00Z", 0) == parse_window("2026-11-21", 0)


def commands_of(group: Any, before: str = "") -> dict[str, Any]:
    """Every command by its words."""
    found = {}
    for name, command in group.commands.items():
        inner = (
            commands_of(command, f"{before}{name} ") if hasattr(command, "commands") else {f"{before}{name}": command}
        )
        found |= inner
    return found


def test_every_command_has_an_example_with_options_that_it_has() -> None:
    known = commands_of(typer.main.get_command(app))

    assert known.keys() == EXAMPLES.keys()
    for name, command in known.items():
        command.make_context(name, shlex.split(EXAMPLES[name]), resilient_parsing=False).close()
        assert command.epilog == f"Example: gpuwatch {name} {EXAMPLES[name]}"


@pytest.mark.parametrize("shell", ["bash", "zsh", "fish"])
def test_shells_get_a_completion(shell: str) -> None:
    script = RUNNER.invoke(app, [], prog_name="gpuwatch", env={"_GPUWATCH_COMPLETE": f"source_{shell}"}).output
    words = {"COMP_WORDS": "gpuwatch charg", "COMP_CWORD": "1", "_TYPER_COMPLETE_ARGS": "gpuwatch charg"}
    action = {"_GPUWATCH_COMPLETE": f"complete_{shell}", "_TYPER_COMPLETE_FISH_ACTION": "get-args", **words}

    assert f"_GPUWATCH_COMPLETE=complete_{shell}" in script
    assert "chargeback" in RUNNER.invoke(app, [], prog_name="gpuwatch", env=action).output
