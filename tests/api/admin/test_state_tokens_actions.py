"""Tokens and actions in the state: what is kept, what is not, and what is in force when."""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator
from pathlib import Path

import pytest

from gpuwatch.core.clock import DAY_US
from gpuwatch.core.errors import UsageError
from gpuwatch.findings.repository import Action, Actions
from gpuwatch.state import FILE, State
from gpuwatch.state.tokens import Tokens

pytestmark = pytest.mark.both_engines

NOW = 1_793_577_600_000_000


@pytest.fixture(scope="module")
def place(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("state")


@pytest.fixture
def state(place: Path, engine: str) -> Iterator[State]:
    """One state in a file for the module: each test names what it makes. On PostgreSQL one for each test."""
    with State.open(place / engine) as opened:
        yield opened


@pytest.mark.parametrize(
    ("name", "scope", "teams", "expires_us"),
    [
        pytest.param("", "read", None, None, id="no name"),
        pytest.param("a\nb", "read", None, None, id="a name of two lines"),
        pytest.param("x" * 101, "read", None, None, id="a name without end"),
        pytest.param("loopback", "read", None, None, id="a name that means somebody else"),
        pytest.param("ann (command line)", "read", None, None, id="a name of somebody who types"),
        pytest.param("ann (loopback) ", "read", None, None, id="a name of somebody over loopback"),
        pytest.param("a", "root", None, None, id="no such scope"),
        pytest.param("a", "admin", ["red"], None, id="an admin of a team"),
        pytest.param("a", "ingest", ["red"], None, id="a sender of a team"),
        pytest.param("a", "read", [], None, id="bound to no team"),
        pytest.param("a", "read", [" "], None, id="bound to a blank"),
        pytest.param("a", "read", None, NOW, id="expired before it begins"),
    ],
)
def test_a_token_that_is_refused(
    state: State, name: str, scope: str, teams: list[str] | None, expires_us: int | None
) -> None:
    """And none is kept."""
    before = len(Tokens(state).list())
    with pytest.raises(UsageError):
        Tokens(state).create(name, scope, teams, expires_us, "test", NOW)

    assert before == len(Tokens(state).list())


def test_the_text_of_a_token_is_kept_nowhere(state: State, place: Path) -> None:
    """Only its digest: who reads the database opens nothing."""
    token, text = Tokens(state).create("a", "read", ["red", "blue", "red"], None, "test", NOW)
    with sqlite3.connect(place / FILE) as raw:
        dump = "\n".join(raw.iterdump())

    assert (("red", "blue"), "gw", token.id) == (token.teams, *text.split("_", 2)[:2])
    assert len(text.split("_", 2)[2]) >= 43
    assert text.split("_", 2)[2] not in dump
    assert token == Tokens(state).resolve(text, NOW)


def test_every_token_is_another(state: State) -> None:
    """Id and secret."""
    texts = [Tokens(state).create("a", "read", None, None, "test", NOW)[1].split("_", 2) for _ in range(5)]

    assert (5, 5) == (len({parts[1] for parts in texts}), len({parts[2] for parts in texts}))


def test_making_and_revoking_are_audited(state: State) -> None:
    """Without the secret; revoking twice is once."""
    token, text = Tokens(state).create("ci", "ingest", None, None, "ada", NOW)
    revoked = [Tokens(state).revoke(token.id, "bob", NOW + 1) for _ in range(2)]
    entries = state.audit(2)

    assert [True, False] == revoked
    assert [("bob", f"token {token.id} revoked"), ("ada", f"token {token.id} created")] == [
        (entry.actor, entry.what) for entry in entries
    ]
    assert text not in str(entries)
    assert Tokens(state).resolve(text, NOW + 2) is None


def test_an_unknown_token_cannot_be_revoked(state: State) -> None:
    """It is named."""
    with pytest.raises(UsageError, match="token nope: unknown"):
        Tokens(state).revoke("nope", "test", NOW)


def test_while_all_tokens_are_revoked_there_is_none(tmp_path: Path) -> None:
    """An expired one still counts: time alone opens no door."""
    with State.open(tmp_path) as state:
        tokens = Tokens(state)
        never = tokens.exist()
        one, _ = tokens.create("a", "read", None, NOW + 1, "test", NOW)
        made = tokens.exist()
        tokens.revoke(one.id, "test", NOW)

        assert [False, True, False] == [never, made, tokens.exist()]


def test_the_last_word_counts(state: State) -> None:
    """And only while it lasts."""

    def act(key: str, action: str, until_us: int | None = None) -> None:
        Actions(state).act(Action(key, action, until_us, "why", "ada", NOW))

    act("acked", "ack")
    act("over", "ack")
    act("over", "snooze", NOW + DAY_US)
    act("reopened", "exempt")
    act("reopened", "reopen")

    assert {"acked": "ack", "over": "snooze"} == {k: a.action for k, a in Actions(state).current(NOW).items()}
    assert {"acked": "ack"} == {k: a.action for k, a in Actions(state).current(NOW + DAY_US).items()}
    assert ["reopen", "exempt"] == [action.action for action in Actions(state).history("reopened")]
