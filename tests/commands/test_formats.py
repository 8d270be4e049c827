"""Every command that prints records takes --format, and the help names every value."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import typer

from gpuwatch.cli import app, run

SERVES = {"demo", "serve", "agent"}
"""They run until they are stopped."""
CONFIRMS = {
    "backup", "restore", "detectors set", "report recipients set", "budget set", "policy set", "rates set", "rates spot", "teams add", "teams set",
    "period reopen", "period sign", "state copy", "token revoke",
}  # fmt: skip
"""They change something and print one line about it, no records."""


def commands(command: Any, path: tuple[str, ...] = ()) -> Iterator[tuple[str, Any]]:
    """Every command with its name, groups left out."""
    inner = getattr(command, "commands", None)
    if inner is None:
        yield " ".join(path), command
        return
    for name, each in inner.items():
        yield from commands(each, (*path, name))


ALL = dict(commands(typer.main.get_command(app)))


def test_every_command_that_prints_records_takes_a_format() -> None:
    without = {name for name, command in ALL.items() if "--format" not in _options(command)}
    assert SERVES | CONFIRMS == without


def _options(command: Any) -> set[str]:
    return {option for parameter in command.params for option in parameter.opts}


@pytest.mark.parametrize("name", sorted(ALL))
def test_the_help_names_every_value(name: str, capsys: pytest.CaptureFixture[str]) -> None:
    """`--cloud-price PRICE`, and never `<str>`."""
    assert 0 == run([*name.split(), "--help"])
    text = capsys.readouterr().out
    assert [] == re.findall(r"<[a-z]+>", text)


FREE = sorted(
    name
    for name, command in ALL.items()
    if "--format" in _options(command) and not any(parameter.required for parameter in command.params)
)


@pytest.mark.parametrize("name", FREE)
def test_an_unknown_format_is_refused_before_anything_is_done(
    name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    assert 2 == run([*name.split(), "--format", "yaml"])
    assert "yaml" in capsys.readouterr().err
    assert [] == list(tmp_path.iterdir())
