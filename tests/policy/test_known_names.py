"""Names that nobody knows: what is no doubt, and what is told with the nearest known names."""

from __future__ import annotations

import json
from collections.abc import Iterator
from decimal import Decimal
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

from gpuwatch.cli import app
from gpuwatch.policy.known_names import DOUBTS_MAX, NAMED_MAX, listed, team_doubts, unknown_teams
from gpuwatch.policy.ownership import TeamRule
from gpuwatch.policy.repository import replace_team_rules
from gpuwatch.rates.card import Rate
from gpuwatch.rates.repository import replace_rates
from gpuwatch.state import State
from gpuwatch.store.database import Store
from tests.worlds.world import CLUSTER, H100, HOUR, Gpu, World, claim, minutes, samples, us

RUNNER = CliRunner()
DOUBT = "no run or rule names team 'vison'; known: vision, a-team, x"
NOBODY = "there is no team 'vison' in the ledger; known: vision, a-team"


@pytest.fixture(scope="module")
def data(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """An hour of a GPU that a user without a rule holds, and rules of two teams."""
    directory = tmp_path_factory.mktemp("data")
    world = World()
    world.store.close()
    world.store = Store.open(directory, threads=1)
    world.add(samples(Gpu(), minutes(0, HOUR)), claim("1", 0, HOUR, gpus="GPU-a", account="x")).book()
    with State.open(directory) as state:
        replace_rates(state, [Rate(H100, "owned", Decimal(1), us(-HOUR), None)], "test", "rates.csv", 0)
        rules = [TeamRule("account", "a", "a-team"), TeamRule("account", "v", "vision")]
        replace_team_rules(state, rules, "test", "teams.csv", 0)
    world.store.close()
    yield directory


def run(data: Path, *arguments: str) -> Any:
    done = RUNNER.invoke(app, [*arguments, "--data", str(data)])
    assert 0 == done.exit_code, done.output
    return done


@pytest.mark.parametrize("team", ["vision", "*", "__platform__", "__unallocated__"])
def test_what_is_known_is_no_doubt(team: str) -> None:
    assert [] == unknown_teams([team], ["vision"])


def test_the_nearest_names_come_first_and_the_others_are_counted() -> None:
    known = [f"team-{n}" for n in range(20)] + ["vision"]
    assert "known: vision, " == listed("Vison", known)[:15]
    assert f"and {len(known) - NAMED_MAX} more" in listed("Vison", known)
    assert "none is known yet" == listed("vison", [])


def test_before_any_team_is_known_one_sentence_says_so() -> None:
    assert [] == team_doubts(["*"], [])
    assert ["no run or rule names a team yet: the teams could not be checked"] == team_doubts(["a", "b"], [])


def test_doubts_are_bounded() -> None:
    result = team_doubts([f"t{n}" for n in range(DOUBTS_MAX + 5)], ["vision"])
    assert (DOUBTS_MAX + 1, "no run or rule names 5 more of these teams") == (len(result), result[-1])


@pytest.mark.parametrize(
    ("arguments", "expected"),
    [
        pytest.param(["findings", "--team", "vision"], "", id="findings of a known team"),
        pytest.param(["findings", "--team", "vison"], NOBODY, id="findings"),
        pytest.param(["budget", "show", "--team", "vison"], NOBODY, id="budgets"),
        pytest.param(["decide", "spot", "--team", "vison"], NOBODY, id="decisions"),
        pytest.param(["shapes", "--cluster", CLUSTER], "", id="shapes of a known cluster"),
        pytest.param(
            ["shapes", "--cluster", "nosuch"],
            f"there is no cluster 'nosuch' in the ledger; known: {CLUSTER}",
            id="shapes",
        ),
        pytest.param(
            ["token", "create", "--scope", "read", "--team", "vison"], DOUBT, id="a token is made and doubted"
        ),
    ],
)
def test_an_empty_answer_says_that_the_name_is_in_no_books(data: Path, arguments: list[str], expected: str) -> None:
    output = run(data, *arguments).stderr
    assert expected in output if expected else "known:" not in output


def test_a_budget_of_a_misspelt_team_is_kept_and_doubted(data: Path, tmp_path: Path) -> None:
    file = tmp_path / "budgets.csv"
    file.write_text("team,period,amount,currency\nvision,month,5,USD\nvison,month,5,USD\n*,month,5,USD\n", "utf-8")
    assert [DOUBT] == run(data, "budget", "set", str(file)).stderr.splitlines()
    items = json.loads(run(data, "budget", "show", "--format", "json").stdout)["items"]
    assert {"*": False, "vision": False, "vison": True} == {one["team"]: one["missing"] is not None for one in items}
    table = run(data, "budget", "show", "--format", "table").stdout
    assert "no run or rule names" in table and "{" not in table
