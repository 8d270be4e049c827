"""The table [timezones] of gpuwatch.toml: in which time zone each cluster's files print local times."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from gpuwatch.core.clock import zone
from gpuwatch.core.config_file import read_file
from gpuwatch.core.errors import UsageError

TABLE = "timezones"


def of_file(path: Path | None) -> dict[str, str]:
    """Those of a settings file; none without a file. Raises UsageError, and UnreadableInput for a file that is not TOML."""
    return configured(read_file(path))


def configured(tables: Mapping[str, Any]) -> dict[str, str]:
    """The time zone of each cluster that has one. Raises one UsageError with every mistake."""
    given = tables.get(TABLE, {})
    if not isinstance(given, Mapping):
        raise UsageError(
            f'{TABLE} is not a table; write [{TABLE}] on a line of its own, and below it berlin = "Europe/Berlin"'
        )
    problems = []
    for cluster, name in given.items():
        try:
            if not isinstance(name, str):
                raise UsageError(f"{name!r} is not the name of a time zone such as Europe/Berlin")
            zone(name)
        except UsageError as error:
            problems.append(f"[{TABLE}] {cluster}: {error}")
    if problems:
        raise UsageError("; ".join(problems))
    return dict(given)
