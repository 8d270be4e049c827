"""Reads a configuration file such as gpuwatch.toml as tables."""

from __future__ import annotations

import tomllib
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from gpuwatch.core.errors import UnreadableInput

MAX_FILE_BYTES = 1_000_000
"""A larger settings file is rejected."""


def read_file(path: Path | None) -> dict[str, Any]:
    """The tables of a settings file; empty without a file. Raises UnreadableInput for a file that is not TOML."""
    if path is None:
        return {}
    try:
        with path.open("rb") as file:
            content = file.read(MAX_FILE_BYTES + 1)
        if len(content) > MAX_FILE_BYTES:
            raise UnreadableInput(f"{path}: larger than {MAX_FILE_BYTES} bytes; this is not a settings file")
        return tomllib.loads(content.decode("utf-8-sig"))
    except OSError as error:
        raise UnreadableInput(f"{path}: {error.strerror or error}; check --config") from error
    except (ValueError, RecursionError) as error:  # not UTF-8, or not TOML: the message has line and column
        raise UnreadableInput(f"{path}: not TOML: {error}") from error


def table_list(tables: Mapping[str, Any], name: str, problems: list[str]) -> list[Mapping[str, Any]]:
    """All [[name]] tables of a settings file; a single [name] is a list of one. Appends to `problems` otherwise."""
    given = tables.get(name, [])
    listed = [given] if isinstance(given, Mapping) else given
    if isinstance(listed, list) and all(isinstance(each, Mapping) for each in listed):
        return listed
    problems.append(f"{name}: write [[{name}]] and its settings below")
    return []
