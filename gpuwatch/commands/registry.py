"""The command registry: each module of this package registers its own commands and groups."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import typer

from gpuwatch.commands.shared import with_state
from gpuwatch.core.registry import discover


@dataclass(frozen=True)
class _Entry:
    place: int
    add: Callable[[typer.Typer], object]


_entries: dict[str, _Entry] = {}


def command(name: str, function: Callable[..., Any], *, place: int, embedded: bool = False) -> None:
    """Registers `gpuwatch NAME`. `place` is its position on the help page. `embedded`: its state is always a file in
    --data. Raises ValueError for a duplicate name.
    """
    complete = function if embedded else with_state(function)
    _add(name, place, lambda app: app.command(name)(complete))


def group(name: str, commands: typer.Typer, *, place: int) -> None:
    """Registers the commands `gpuwatch NAME ...`. Raises ValueError for a duplicate name."""
    _add_state(commands)
    _add(name, place, lambda app: app.add_typer(commands, name=name))


def add_all(app: typer.Typer) -> None:
    """Adds every command and group of this package to the command line, in help order."""
    discover("gpuwatch.commands")
    for _, entry in sorted(_entries.items(), key=lambda item: (item[1].place, item[0])):
        entry.add(app)


def _add_state(commands: typer.Typer) -> None:
    """Adds --state to the commands of a group and of the groups in it."""
    for each in commands.registered_commands:
        if each.callback is not None:
            each.callback = with_state(each.callback)
    for below in commands.registered_groups:
        if below.typer_instance is not None:
            _add_state(below.typer_instance)


def _add(name: str, place: int, add: Callable[[typer.Typer], object]) -> None:
    if name in _entries:
        raise ValueError(f"command {name!r} is registered twice")
    _entries[name] = _Entry(place, add)
