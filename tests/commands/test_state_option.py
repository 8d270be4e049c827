"""--state goes with --data: both say where a command finds what it works on."""

from __future__ import annotations

from typing import Any

from typer.main import get_command

from gpuwatch.cli import app

IN_DIRECTORY = {"gpuwatch demo"}
"""Commands whose state is always a file in --data."""


def options_of(command: Any, path: str) -> dict[str, set[str]]:
    """The options of every command, by its path."""
    found = {path: {name for parameter in command.params for name in parameter.opts}}
    for name, below in getattr(command, "commands", {}).items():
        found |= options_of(below, f"{path} {name}")
    return found


def test_every_command_with_a_data_directory_takes_the_state() -> None:
    found = options_of(get_command(app), "gpuwatch")
    with_data = {path for path, options in found.items() if "--data" in options}
    with_state = {path for path, options in found.items() if "--state" in options}

    assert {"gpuwatch serve", "gpuwatch token create", "gpuwatch state copy"} <= with_state
    assert with_data - IN_DIRECTORY == with_state
