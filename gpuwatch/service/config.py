"""The service's configuration, fully checked before anything starts."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeVar

from gpuwatch.core.config_file import read_file
from gpuwatch.core.errors import UsageError
from gpuwatch.core.registry import LiveSource, live_kinds
from gpuwatch.imports import cluster_zones
from gpuwatch.lake import settings as lake_settings
from gpuwatch.lake.settings import LakeSettings
from gpuwatch.service import after_pass, collect, sign_on
from gpuwatch.settings import Settings, settings_of

PREFIX = "settings: "
"""Start of the message about mistakes in gpuwatch.toml."""

FREE = ("labels",)
"""Tables with user-chosen keys, which are not options."""

T = TypeVar("T")


@dataclass(frozen=True)
class Plan:
    """Settings, and the sources and channels, created but not yet running."""

    settings: Settings
    tables: Mapping[str, Any]
    """The other tables of gpuwatch.toml."""
    live: tuple[LiveSource, ...]
    alerts: after_pass.AlertConfig
    sso: sign_on.SignOn | None = None
    lake: LakeSettings | None = None


def load(path: Path | None, environ: Mapping[str, str]) -> Plan:
    """The configuration from a settings file and the environment.

    Raises UnreadableInput for a file that cannot be read, and one UsageError with every mistake.
    """
    content = read_file(path)
    names = (*live_kinds(), "alerts", "channel", sign_on.TABLE, lake_settings.NAME, cluster_zones.TABLE)
    return _made(
        lambda: settings_of(content, path, environ, names),
        {name: content[name] for name in names if name in content},
        live=True,
        environ=environ,
    )


def made(settings: Settings, tables: Mapping[str, Any], live: bool = True) -> Plan:
    """The configuration from settings and tables; without `live` it has no sources.

    Raises one UsageError with every mistake.
    """
    return _made(lambda: settings, tables, live)


def _made(
    read: Callable[[], Settings], tables: Mapping[str, Any], live: bool, environ: Mapping[str, str] | None = None
) -> Plan:
    problems: list[str] = []
    settings = _tried(read, problems)
    sources = _tried(lambda: tuple(collect.configured(tables)), problems) if live else ()
    alerts = _tried(lambda: after_pass.configured(tables), problems)
    public_url = None if settings is None else settings.public_url
    sso = None if settings is None else _tried(lambda: sign_on.configured(tables, public_url), problems)
    lake = _tried(lambda: _lake(tables, environ or {}), problems)
    _tried(lambda: cluster_zones.configured(tables), problems)  # imports read it
    message = "; ".join(problems)
    problems += [lack for path, lack in unreadable(tables).items() if live and path not in message]
    if settings is None or sources is None or alerts is None or problems:
        raise UsageError(PREFIX + "; ".join(problems))
    return Plan(settings, tables, sources, alerts, sso, lake)


def _lake(tables: Mapping[str, Any], environ: Mapping[str, str]) -> LakeSettings | None:
    """The lake, whose extensions are installed."""
    found = lake_settings.configured(tables, environ)
    if found is not None:
        from gpuwatch.lake import extensions
        from gpuwatch.lake.connection import DUCKDB

        extensions.needed(found, DUCKDB)
    return found


def _tried(make: Callable[[], T], problems: list[str]) -> T | None:
    try:
        return make()
    except UsageError as error:
        problems.append(str(error).removeprefix(PREFIX))
        return None


def unreadable(tables: Mapping[str, Any]) -> dict[str, str]:
    """Problems with files named by options `<name>_file`: unreadable or empty."""
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
