"""`gpuwatch explain`: on a directory, and through the server that holds it."""

from __future__ import annotations

import csv
import io
import json
import shutil
from decimal import Decimal
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

from gpuwatch.billing import chargeback
from gpuwatch.cli import app
from gpuwatch.policy.ownership import TeamRule
from gpuwatch.policy.repository import replace_team_rules
from gpuwatch.rates.card import Rate
from gpuwatch.rates.repository import replace_rates
from gpuwatch.state import State
from gpuwatch.store.database import Store
from tests.e2e.process import Server
from tests.worlds.world import H100, HOUR, IDLE, T0_US, Gpu, World, claim, minutes, samples, us

POLICY = '[[policies]]\nname = "draft"\nvalid_from = "2026-11-01"\nbasis = "used"\n'
RUNNER = CliRunner()


@pytest.fixture(scope="module")
def template(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Two hours of an idle GPU at 2 USD; ann holds it for the first, in two jobs."""
    directory = tmp_path_factory.mktemp("template")
    world = World()
    world.store.close()
    world.store = Store.open(directory, threads=1)
    world.add(
        samples(Gpu(), minutes(0, 2 * HOUR), IDLE),
        claim("1", 0, HOUR / 2, gpus="GPU-a", account="a", user_name="ann"),
        claim("2", HOUR / 2, HOUR, gpus="GPU-a", account="a", user_name="ann"),
    ).book()
    with State.open(directory) as state:
        replace_rates(state, [Rate(H100, "owned", Decimal(2), T0_US)], "test", "rates.csv", us(0))
        replace_team_rules(state, [TeamRule("account", "a", "red")], "test", "teams.csv", us(0))
        chargeback.price_all(world.store, state)
    world.store.close()
    return directory


@pytest.fixture
def data(template: Path, tmp_path: Path) -> Path:
    """The test's own copy of it, beside a policy."""
    (tmp_path / "draft.toml").write_text(POLICY)
    return shutil.copytree(template, tmp_path / "data")


def output_of(data: Path, *arguments: str, code: int = 0) -> str:
    """What a command on the directory prints; of a failure what it says on stderr."""
    done = RUNNER.invoke(app, [*arguments, "--data", str(data)])

    assert code == done.exit_code, done.output
    return done.stdout if code == 0 else done.stderr


def answers(data: Path) -> list[Any]:
    """All that the command tells of the charge of team red."""
    window = "2026-11-02T00:00:00Z,2026-11-03T00:00:00Z"
    charges = json.loads(output_of(data, "chargeback", "--window", window, "--format", "json"))["items"]
    charge = next(row["charge"] for row in charges if row["team"] == "red")
    draft = str(data.parent / "draft.toml")
    found = [
        json.loads(output_of(data, "explain", charge, "--format", "json", *more))
        for more in (
            (),
            ("--policy", draft),
            ("--policy", "share-idle"),
            ("--limit", "1"),
            ("--offset", "1"),
            ("--offset", "9"),
        )
    ]
    found.append(list(csv.DictReader(io.StringIO(output_of(data, "explain", charge, "--format", "csv")))))
    found.append(output_of(data, "explain", charge, "--format", "table", "--limit", "1", "--policy", draft))
    found.append(output_of(data, "explain", charge[:-1], code=2).split(";")[0])
    found.append(output_of(data, "explain", charge, "--policy", "generous", code=2).split(";")[0])
    return found


def test_a_charge_is_opened_on_a_directory_and_beside_a_server(data: Path) -> None:
    here = answers(data)
    with Server(data):
        assert here == answers(data)

    whole, draft, shared, first, second, none, table, text, broken, unknown = here
    assert ["1", "2"] == [one["job"] for one in whole["items"]] == [one["job"] for one in table]
    assert ("2.00", None, 2, None) == (*(whole[name] for name in ("cost", "under", "lines", "next_offset")),)
    assert ("2.00", "0.00", ["draft"]) == (*(draft["under"][name] for name in ("now", "cost", "policies")),)
    assert ("2.00", "4.00") == (shared["under"]["now"], shared["under"]["cost"])
    assert (whole["items"], 1) == (first["items"] + second["items"], first["next_offset"])
    assert ([], None) == (none["items"], none["next_offset"])
    assert "Team red held 1 GPU of NVIDIA H100 80GB HBM3 for 1 GPU-hours at 2 USD a GPU-hour: 2.00 USD." in text
    assert "n1 GPU 0" in text and "1800 s x 1 x 2 / 3600" in text and "Lines 1 to 1 of 2" in text
    assert "Under draft: 0.00 USD instead of 2.00 (-2.00)" in text
    assert "not a charge id" in broken and "neither a preset nor" in unknown


def test_a_file_that_is_not_there_is_named(data: Path) -> None:
    assert "missing.toml: No such file" in output_of(data, "explain", "c1.alsx", "--policy", "missing.toml", code=2)
