"""What a configuration asks the service to run, checked whole before anything starts."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeVar

from gpuwatch.core.errors import UsageError
from gpuwatch.core.registry import LiveSource, live_kinds
from gpuwatch.service import after_pass, collect
from gpuwatch.settings import Settings, read_file, settings_of

PREFIX = "settings: "
"""How the sentence about mistakes in gpuwatch.toml begins."""

FREE = ("labels",)
"""Tables whose names are the user's: none of them is an option."""

T = TypeVar("T")


@dataclass(frozen=True)
class Plan:
    """Settings, and sources and channels that are made but do not run yet."""

    settings: Settings
    tables: Mapping[str, Any]
    """The other tables of gpuwatch.toml."""
    live: tuple[LiveSource, ...]
    alerts: after_pass.AlertConfig


def load(path: Path | None, environ: Mapping[str, str]) -> Plan:
    """The plan of a settings file and the environment.

    Raises UnreadableInput for a file that cannot be read, and UsageError with every mistake in it at once.
    """
    content = read_file(path)
    names = (*live_kinds(), "alerts", "channel")
    return _made(
        lambda: settings_of(content, path, environ, names),
        {name: content[name] for name in names if name in content},
        live=True,
    )


def made(settings: Settings, tables: Mapping[str, Any], live: bool = True) -> Plan:
    """The plan of settings and tables that are read already; without `live` no source is in it.

    Raises UsageError with every mistake at once.
    """
    return _made(lambda: settings, tables, live)


def _made(read: Callable[[], Settings], tables: Mapping[str, Any], live: bool) -> Plan:
    problems: list[str] = []
    settings = _tried(read, problems)
    sources = _tried(lambda: tuple(collect.configured(tables)), problems) if live else ()
    alerts = _tried(lambda: after_pass.configured(tables), problems)
    told = "; ".join(problems)
    problems += [lack for path, lack in unreadable(tables).items() if live and path not in told]
    if settings is None or sources is None or alerts is None or problems:
        raise UsageError(PREFIX + "; ".join(problems))
    return Plan(settings, tables, sources, alerts)


def _tried(make: Callable[[], T], problems: list[str]) -> T | None:
    try:
        return make()
    except UsageError as error:
        problems.append(str(error).removeprefix(PREFIX))
        return None


def unreadable(tables: Mapping[str, Any]) -> dict[str, str]:
    """What is wrong with each file that an option `<name>_file` names, of every kind: it cannot be read, or is empty."""
    found: dict[str, str] = {}
    left: list[tuple[str, Any]] = [(f"[[{name}]]", table) for name, table in tables.items()]
    while left:
        where, value = left.pop()
        if isinstance(value, list):
            left += [(where, each) for each in value]
        elif isinstance(value, Mapping):
            left += [(f"{where} {name}", each) for name, each in value.items() if name not in FREE]
        elif isinstance(value, str) and value and where.endswith("_file") and (lack := _lack(value)):
            found[value] = f"{where}: {value}: {lack}"
    return dict(sorted(found.items()))


def _lack(path: str) -> str:
    try:
        if not Path(path).is_file():
            return "there is no such file"
        with open(path, "rb") as file:
            return "" if file.read(1) else "is empty"
    except (OSError, ValueError) as error:
        return getattr(error, "strerror", None) or str(error)
