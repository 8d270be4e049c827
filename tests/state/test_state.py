"""The state: what people set survives, changes once, and is audited."""

from __future__ import annotations

import sqlite3
import stat
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from decimal import Decimal
from pathlib import Path

import pytest
from alembic.config import Config
from alembic.script import ScriptDirectory

import gpuwatch.state
from gpuwatch.core.errors import StoreError, UsageError
from gpuwatch.policy.ownership import TeamRule
from gpuwatch.policy.repository import load_team_rules, replace_team_rules
from gpuwatch.rates.card import Rate
from gpuwatch.rates.repository import load_rates, replace_rates
from gpuwatch.state import FILE, SCHEMA, AuditEntry, State

CARD = (
    Rate("A100", "owned", Decimal("1.20"), 5),
    Rate("H100", "spot", Decimal("2.123456789012"), 0, 10, "c1", "p1", "1g.10gb", "EUR"),
)
RULES = (TeamRule("user", "*", "red"), TeamRule("label:app", "llm", "blue"))

pytestmark = pytest.mark.both_engines


@pytest.fixture
def state(tmp_path: Path) -> Iterator[State]:
    with State.open(tmp_path / "new" / "data") as opened:
        yield opened


def test_an_empty_state_has_nothing(state: State) -> None:
    assert ((), (), 0, None, "x", ()) == (
        load_rates(state),
        load_team_rules(state),
        state.card_version("rates"),
        state.setting("a"),
        state.setting("a", "x"),
        state.audit(),
    )


def test_replacing_nothing_by_nothing_is_no_change(state: State) -> None:
    assert replace_rates(state, [], "ann", "rates.csv", 1) is False
    assert replace_team_rules(state, [], "ann", "teams.csv", 1) is False
    assert () == state.audit()


@pytest.mark.parametrize(
    "again",
    [
        pytest.param(CARD, id="the same card"),
        pytest.param(CARD[::-1], id="the same card in another order"),
        pytest.param((Rate("A100", "owned", Decimal("1.2"), 5, line=9), CARD[1]), id="one price spelt otherwise"),
    ],
)
def test_the_same_rates_again_change_nothing(state: State, again: tuple[Rate, ...]) -> None:
    assert replace_rates(state, CARD, "ann", "rates.csv", 1) is True
    assert replace_rates(state, again, "bob", "other.csv", 2) is False

    assert set(CARD) == set(load_rates(state))
    assert (1, ["ann"]) == (state.card_version("rates"), [entry.actor for entry in state.audit()])


def test_money_comes_back_to_the_last_digit(state: State) -> None:
    replace_rates(state, CARD, "ann", "rates.csv", 1)

    assert ["1.2", "2.123456789012"] == sorted(str(rate.usd_per_gpu_hour) for rate in load_rates(state))


def test_a_new_card_keeps_the_old_one_readable(state: State) -> None:
    replace_rates(state, CARD, "ann", "rates.csv", 1)
    replace_rates(state, CARD[:1], "ann", "rates.csv", 2)
    replace_rates(state, [], "ann", "rates.csv", 3)

    assert [2, 1, 0] == [len(load_rates(state, version)) for version in (1, 2, None)]
    assert 3 == state.card_version("rates")


def test_rates_valid_at_once_are_refused_whole(state: State) -> None:
    with pytest.raises(UsageError, match="valid at once"):
        replace_rates(state, [CARD[0], Rate("nvidia a100", "owned", Decimal(1), 7)], "ann", "api", 1)

    assert () == load_rates(state)


def test_the_order_of_team_rules_counts(state: State) -> None:
    assert replace_team_rules(state, RULES, "ann", "teams.csv", 1) is True
    assert replace_team_rules(state, RULES, "ann", "teams.csv", 2) is False
    assert replace_team_rules(state, RULES[::-1], "ann", "teams.csv", 3) is True

    assert RULES[::-1] == load_team_rules(state)


def test_a_setting_is_audited_when_it_changes(state: State) -> None:
    changes = [
        state.set_setting("pool_label", value, "ann", at) for at, value in enumerate(["a", "a", "b", None, None])
    ]

    assert [True, False, True, True, False] == changes
    expected = (
        AuditEntry(3, "ann", "setting pool_label", '"b"', None),
        AuditEntry(2, "ann", "setting pool_label", '"a"', '"b"'),
    )
    assert expected == state.audit(limit=2)


def test_bookkeeping_of_the_program_is_not_audited(state: State) -> None:
    """A service notes at each pass where it stands: that would bury what people did."""
    for value in ("a", "b", None, "c"):
        state.note("judge_from:c1", value)

    assert ("c", ()) == (state.setting("judge_from:c1"), state.audit())


@pytest.mark.sqlite_only
def test_what_is_stored_is_there_after_opening_again(tmp_path: Path) -> None:
    with State.open(tmp_path) as first:
        replace_rates(first, CARD, "ann", "rates.csv", 1)
        first.record("ann", 2, "period 2026-W47 closed")
    with State.open(f"sqlite:///{tmp_path / FILE}") as again:
        assert set(CARD) == set(load_rates(again))
        assert ["period 2026-W47 closed", "rates replaced"] == [entry.what for entry in again.audit()]


@pytest.mark.sqlite_only
def test_a_directory_may_be_named_like_a_database(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    State.open("postgresql").close()

    assert (tmp_path / "postgresql" / FILE).exists()


@pytest.mark.sqlite_only
def test_the_file_is_for_its_owner_only(tmp_path: Path) -> None:
    State.open(tmp_path).close()

    assert 0o600 == stat.S_IMODE((tmp_path / FILE).stat().st_mode)


def test_many_opening_and_writing_at_once_lose_nothing(tmp_path: Path) -> None:
    def write(worker: int) -> None:
        with State.open(tmp_path) as own:
            for n in range(5):
                replace_rates(own, [Rate("H100", "spot", Decimal(worker * 10 + n), 0)], f"w{worker}", "api", n)

    with ThreadPoolExecutor(4) as pool:
        list(pool.map(write, range(4)))
    with State.open(tmp_path) as state:
        assert (20, 20) == (state.card_version("rates"), len(state.audit()))


@pytest.mark.sqlite_only
def test_a_migration_that_fails_leaves_nothing_behind(tmp_path: Path) -> None:
    path = tmp_path / FILE
    with sqlite3.connect(path) as connection:
        connection.execute("create table audit_log (x)")

    with pytest.raises(StoreError, match="audit_log already exists"):
        State.open(tmp_path)
    with sqlite3.connect(path) as connection:
        assert [("audit_log",)] == connection.execute("select name from sqlite_master where type = 'table'").fetchall()
        connection.execute("drop table audit_log")
    with State.open(tmp_path) as state:
        assert () == state.audit()


@pytest.mark.sqlite_only
def test_a_state_of_a_newer_version_is_refused(tmp_path: Path) -> None:
    State.open(tmp_path).close()
    with sqlite3.connect(tmp_path / FILE) as connection:
        connection.execute("update alembic_version set version_num = '9999'")

    with pytest.raises(StoreError, match=r"written by a newer gpuwatch \(schema 9999"):
        State.open(tmp_path)


@pytest.mark.sqlite_only
@pytest.mark.parametrize(
    ("message", "where"),
    [
        pytest.param("not a database", "broken", id="a file that is no database"),
        pytest.param("choose another --data directory", "broken/state.sqlite", id="a file where a directory must be"),
        pytest.param("no driver", "nosuchdb://host/x", id="a database nobody has a driver for"),
        pytest.param("not a database URL", "://", id="no URL"),
        pytest.param("unable to open database file", "sqlite:////nowhere/at/all.sqlite", id="a folder that is absent"),
    ],
)
def test_what_cannot_be_opened_is_named(tmp_path: Path, message: str, where: str) -> None:
    (tmp_path / "broken").mkdir()
    (tmp_path / "broken" / FILE).write_text("not a database at all, but long enough to have a header" * 20)

    with pytest.raises(StoreError, match=message):
        State.open(where if "://" in where else tmp_path / where)


@pytest.mark.sqlite_only
def test_a_password_is_not_in_the_message() -> None:
    with pytest.raises(StoreError) as caught:
        State.open("nosuchdb://ann:secret@host/x")

    assert "secret" not in str(caught.value)


@pytest.mark.sqlite_only
def test_the_schema_named_in_code_is_the_last_migration() -> None:
    config = Config()
    config.set_main_option("script_location", str(Path(gpuwatch.state.__file__).parents[1] / "state_migrations"))

    assert SCHEMA == ScriptDirectory.from_config(config).get_current_head()


def test_the_version_changes_with_every_commit(state: State) -> None:
    """On a server others may change it too; in a file nobody else does."""
    first, same = state.version(), state.version()
    state.set_setting("a", "1", "ann", 1)
    second = state.version()

    assert first is not None and len({first, second}) == 2
    assert state.on_server or first == same
    assert state.on_server or second == state.version()
