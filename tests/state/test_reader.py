"""A state in a file is read without SQLAlchemy, with the answers and errors that its engine has."""

from __future__ import annotations

import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from decimal import Decimal
from pathlib import Path

import pytest

from gpuwatch.core.clock import HOUR_US
from gpuwatch.core.errors import StoreError
from gpuwatch.findings.repository import Action, Actions, Mark
from gpuwatch.policy.ownership import TeamRule
from gpuwatch.policy.repository import load_team_rules, replace_team_rules
from gpuwatch.rates.card import Rate
from gpuwatch.rates.repository import load_rates, replace_rates
from gpuwatch.state import FILE, State
from gpuwatch.state.list_columns import KEY, OWN_ROWS
from gpuwatch.state.versioned_lists import VersionedLists

ODD = "'; drop table card; -- \udcff \U0001f600 :kind"
CARD = (Rate("A100", "owned", Decimal("1.20"), 5, 2**53 + 1), Rate("H100", "spot", Decimal("2.123456789012"), 0))

READING = """
import sys
from pathlib import Path
from gpuwatch.findings.repository import Actions
from gpuwatch.policy.repository import load_team_rules, share_methods
from gpuwatch.rates import in_force
from gpuwatch.rates.fx import Fx
from gpuwatch.state import State
with State.open(Path(sys.argv[1]), create=False) as state:
    found = [in_force.in_force(state), in_force.versions(state), Fx.read(state), load_team_rules(state)]
    found += [share_methods(state), state.identity(), state.audit(), state.version() is None, Actions(state).current(0)]
    print(len(found[0]), state.problems(), sorted({"sqlalchemy", "alembic"} & set(sys.modules)))
"""


def test_reading_loads_no_engine(tmp_path: Path) -> None:
    with State.open(tmp_path) as state:
        replace_rates(state, CARD, "ann", "rates.csv", 1)
    done = subprocess.run([sys.executable, "-c", READING, str(tmp_path)], capture_output=True, text=True, check=True)

    assert "2 [] []\n" == done.stdout


def test_the_engine_and_the_file_have_the_same_rows(tmp_path: Path) -> None:
    """A URL is read by the engine, a directory without it."""
    with State.open(tmp_path) as state:
        replace_rates(state, CARD, "ann", "rates.csv", 1)
        replace_team_rules(state, [TeamRule("user", "*", "red"), TeamRule("label:app", "llm", "blue")], "ann", "t", 2)
        VersionedLists(state).replace("fx", [{"currency": "EUR", "max_age_days": 3}], "bob", "fx.csv", 3)
        state.note("empty", "")
        actions = Actions(state)
        actions.act(Action("idle-1", "ack", None, "seen", "ann", 4, "true_positive"))
        actions.act(Action("idle-1", "assign", None, "", "ann", 5, assignee="Zoë"))
        actions.act(Action("idle-2", "snooze", 6 + HOUR_US, "later", "ann", 6))
        actions.act(Action("idle-3", "ack", None, "wrong", "ann", 7, "false_positive"))
        actions.act(Action("idle-4", "exempt", None, "ours", "ann", 8))
        actions.act(Action("idle-4", "reopen", None, "not ours", "ann", 9))
        with State.open(f"sqlite:///{tmp_path / FILE}") as by_engine:
            for opened in (state, by_engine):
                found = Actions(opened)
                assert {"idle-1": "ack", "idle-2": "snooze", "idle-3": "ack"} == {
                    key: action.action for key, action in found.current(6 + HOUR_US - 1).items()
                }
                assert {"idle-1", "idle-3"} == set(found.current(6 + HOUR_US))
                assert [("reopen", 9), ("exempt", 8)] == [(one.action, one.at_us) for one in found.history("idle-4")]
                assert {"idle-1": Mark("Zoë", "true_positive"), "idle-3": Mark(None, "false_positive")} == found.marks()
                assert {"idle-3"} == found.dismissed()
                assert set(CARD) == set(load_rates(opened))
                assert ["red", "blue"] == [rule.team for rule in load_team_rules(opened)]
                assert [{"currency": "EUR", "max_age_days": 3}] == VersionedLists(opened).rows("fx")
                assert [] == VersionedLists(opened).rows("fx", 2)
                assert [("fx", 1, "bob", 3)] == [
                    (one.kind, one.version, one.actor, one.at_us) for one in VersionedLists(opened).history("fx")
                ]
                assert ("", None) == (opened.setting("empty"), opened.setting(ODD.replace("\udcff", "")))
            assert (state.audit(), state.identity()) == (by_engine.audit(), by_engine.identity())


def test_a_reader_sees_what_was_committed_while_another_writes(tmp_path: Path) -> None:
    with State.open(tmp_path) as state, State.open(tmp_path) as other:
        state.note("a", "1")
        with other.transaction(write=True) as connection:
            connection.exec_driver_sql("update setting set value = '2' where name = 'a'")
            assert "1" == state.setting("a")
        assert "2" == state.setting("a")


def test_threads_share_a_reader(tmp_path: Path) -> None:
    with State.open(tmp_path) as state, ThreadPoolExecutor(4) as pool:
        for number in range(20):
            state.note(f"n{number}", str(number))
        names = [f"n{number % 20}" for number in range(200)]

        assert [name[1:] for name in names] == list(pool.map(state.setting, names))


@pytest.mark.parametrize(
    ("content", "message"),
    [
        pytest.param(
            b"no database at all" * 100, "file is not a database; it is damaged; restore it", id="another file"
        ),
        pytest.param(None, "no such table: setting", id="a table is gone"),
    ],
)
def test_what_cannot_be_read_is_named_with_its_fix(tmp_path: Path, content: bytes | None, message: str) -> None:
    with State.open(tmp_path) as state:
        if content is None:
            with state.transaction(write=True) as connection:
                connection.exec_driver_sql("drop table setting")
            with pytest.raises(StoreError, match=message):
                state.setting("a")
            return
    (tmp_path / FILE).write_bytes(content)
    with pytest.raises(StoreError, match=message):
        State.open(tmp_path, create=False)


def test_names_of_columns_that_are_read_are_those_that_are_written() -> None:
    from gpuwatch.state.tables import ROWS

    assert {"card_row", "rate", "ownership_rule"} == set(ROWS)
    for rows in OWN_ROWS.values():
        assert (*KEY, *rows.columns) == tuple(ROWS[rows.table].c.keys())
