"""Targets from files in the format of Prometheus' file_sd, JSON or YAML, read again when they change."""

from __future__ import annotations

import glob
import json
import os
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from gpuwatch.collectors.dcgm.scrape.discovery import FoundTarget, OwnThread
from gpuwatch.core.errors import SourceUnreachable

MAX_FILES = 1_000
MAX_FILE_BYTES = 16 * 1024 * 1024
MAX_TARGETS = 20_000
"""Limit of the targets of one pattern."""
SUFFIXES = (".json", ".yml", ".yaml")

_Stamp = tuple[int, int, int]


class Files:
    """The files of one pattern. An unreadable file keeps its last targets; a deleted file loses them."""

    def __init__(self, pattern: str) -> None:
        self.shown = f"file_sd {pattern}"
        self._pattern = pattern
        self._aside = OwnThread()
        self._known: dict[str, tuple[_Stamp, Sequence[FoundTarget]]] = {}

    async def find(self) -> tuple[Sequence[FoundTarget], Sequence[str]]:
        """The targets of all files, and the problems of some."""
        return await self._aside.call(self._search)

    def _search(self) -> tuple[Sequence[FoundTarget], Sequence[str]]:
        paths = sorted(glob.glob(self._pattern, recursive=False))
        if not paths and not glob.has_magic(self._pattern):
            raise SourceUnreachable("file not found; check file_sd")
        problems = [f"more than {MAX_FILES} files; the rest is skipped"] if len(paths) > MAX_FILES else []
        known: dict[str, tuple[_Stamp, Sequence[FoundTarget]]] = {}
        for path in paths[:MAX_FILES]:
            before = self._known.get(path)
            try:
                stat = os.stat(path)
                stamp = (stat.st_mtime_ns, stat.st_size, stat.st_ino)
                known[path] = before if before is not None and before[0] == stamp else (stamp, read_targets(path))
            except (OSError, ValueError) as error:
                why = (error.strerror if isinstance(error, OSError) else None) or error
                problems.append(f"{path}: {why}; its last known targets are kept")
                if before is not None:
                    known[path] = before
        self._known = known
        places = [place for _, of_file in known.values() for place in of_file]
        if len(places) > MAX_TARGETS:
            problems.append(f"more than {MAX_TARGETS} targets; the rest is skipped")
        return places[:MAX_TARGETS], problems


def read_targets(path: str) -> list[FoundTarget]:
    """The targets of a file: a list of {"targets": [...], "labels": {...}}. Raises OSError or ValueError."""
    if not path.endswith(SUFFIXES):
        raise ValueError(f"the name must end in {', '.join(SUFFIXES)}")
    with Path(path).open("rb") as file:
        data = file.read(MAX_FILE_BYTES + 1)
    if len(data) > MAX_FILE_BYTES:
        raise ValueError(f"has more than {MAX_FILE_BYTES} bytes")
    groups = _json(data) if path.endswith(".json") else _yaml(data)
    if groups is not None and not isinstance(groups, list):
        raise ValueError('must be a list of {"targets": [...], "labels": {...}}')
    places: list[FoundTarget] = []
    for number, group in enumerate(groups or [], 1):
        found = _group(group)
        if found is None:
            raise ValueError(f'entry {number} must be {{"targets": ["n1:9400"], "labels": {{"name": "text"}}}}')
        places += found
        if len(places) > MAX_TARGETS:
            break
    return places


def _group(group: object) -> list[FoundTarget] | None:
    """The targets of an entry, None if it is invalid."""
    if not isinstance(group, Mapping):
        return None
    targets, labels = group.get("targets"), group.get("labels") or {}
    if not isinstance(targets, list) or not isinstance(labels, Mapping):
        return None
    if not all(isinstance(text, str) for text in (*targets, *labels, *labels.values())):
        return None
    return [_place(target, labels) for target in targets]


def _place(address: str, labels: Mapping[str, str]) -> FoundTarget:
    """A target; as in Prometheus, labels that begin with __ set its scheme and path."""
    if "://" not in address and ("__scheme__" in labels or "__metrics_path__" in labels):
        address = f"{labels.get('__scheme__', 'http')}://{address}{labels.get('__metrics_path__', '')}"
    return FoundTarget(address, {name: value for name, value in labels.items() if not name.startswith("__")})


def _json(data: bytes) -> Any:
    try:
        return json.loads(data)
    except (ValueError, RecursionError) as error:
        raise ValueError(f"is not JSON: {error}") from None


def _yaml(data: bytes) -> Any:
    import yaml  # slow to import: most commands do not need it

    try:
        return yaml.load(data, getattr(yaml, "CSafeLoader", yaml.SafeLoader))
    except (yaml.YAMLError, RecursionError, ValueError) as error:
        raise ValueError(f"is not YAML: {' '.join(str(error).split())[:200]}") from None
