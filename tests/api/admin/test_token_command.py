"""`gpuwatch token`: made, listed without its secret, revoked."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
import typer
from typer.testing import CliRunner

from gpuwatch.commands import token
from gpuwatch.core.errors import GpuwatchError
from gpuwatch.state import State
from gpuwatch.state.tokens import Tokens

NOW = 1_793_577_600_000_000


def run(*arguments: str) -> tuple[str, str]:
    """(stdout, stderr) of a command; raises what it raised."""
    app = typer.Typer()
    app.command("create")(token.create)
    app.command("list")(token.list_)
    app.command("revoke")(token.revoke)
    result = CliRunner().invoke(app, list(arguments), obj=lambda: NOW)
    if isinstance(result.exception, GpuwatchError):
        raise result.exception
    assert 0 == result.exit_code, result.output

    return result.stdout, result.stderr


def test_a_token_is_printed_once_and_works(tmp_path: Path) -> None:
    """Also before there is a server: the directory is made."""
    data = tmp_path / "new"
    text, entry = run("create", "--scope", "read", "--team", "red,blue", "--expires", "2d", "--data", str(data))
    listed, _ = run("list", "--data", str(data), "--format", "json")
    row = json.loads(listed)["items"][0]
    with State.open(data) as state:
        found = Tokens(state).resolve(text.strip(), NOW)

    assert found is not None
    assert ("read", ("red", "blue"), "2026-11-04T00:00:00Z") == (found.scope, found.teams, row["expires_at"])
    assert ("valid", ["red", "blue"], found.id) == (row["state"], row["teams"], row["id"])
    assert text.strip() not in listed + entry


def test_with_a_format_the_record_is_printed_with_the_token(tmp_path: Path) -> None:
    (row,) = json.loads(
        run("create", "--scope", "read", "--team", "red", "--format", "json", "--data", str(tmp_path))[0]
    )["items"]
    with State.open(tmp_path) as state:
        found = Tokens(state).resolve(row["token"], NOW)

    assert found is not None
    assert (found.id, "read", ["red"], "valid") == (row["id"], row["scope"], row["teams"], row["state"])


def test_a_revoked_token_is_listed_as_such(tmp_path: Path) -> None:
    """And revoking again says so."""
    run("create", "--scope", "ingest", "--data", str(tmp_path))
    identity = json.loads(run("list", "--data", str(tmp_path), "--format", "json")[0])["items"][0]["id"]
    listed = [run("revoke", identity, "--data", str(tmp_path))[1].strip() for _ in range(2)]

    assert [f"token {identity} revoked", f"token {identity} was already revoked"] == listed
    assert "revoked" == json.loads(run("list", "--data", str(tmp_path), "--format", "json")[0])["items"][0]["state"]


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        pytest.param(("create", "--scope", "root"), "token scope 'root'", id="no such scope"),
        pytest.param(("create", "--scope", "admin", "--team", "red"), "only a read token", id="an admin of a team"),
        pytest.param(("create", "--scope", "read", "--expires", "soon"), "--expires soon", id="no such time"),
        pytest.param(("create", "--scope", "read", "--expires", "99999d"), "--expires 99999d", id="beyond ten years"),
        pytest.param(("revoke", "nope"), "token nope: unknown", id="an unknown id"),
    ],
)
def test_what_is_refused_is_named(tmp_path: Path, arguments: tuple[str, ...], words: str) -> None:
    """In one line."""
    with pytest.raises(GpuwatchError, match=words):
        run(*arguments, "--data", str(tmp_path))


def test_a_directory_that_is_not_there_is_not_made_by_listing(tmp_path: Path) -> None:
    """A misspelt --data shows no empty list."""
    with pytest.raises(GpuwatchError, match="no gpuwatch data"):
        run("list", "--data", str(tmp_path / "typo"))

    assert not (tmp_path / "typo").exists()
