"""Plug-ins: a decorator and a file. Importers and detectors are found by walking their package."""

from __future__ import annotations

import importlib
import pkgutil
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol

from gpuwatch.errors import UsageError
from gpuwatch.model import Rejects, Rows, Source


class Read(Protocol):
    """Reads one file into batches; refuses bad pieces into `rejects`; raises UnreadableInput for a bad file."""

    def __call__(self, source: Source, rejects: Rejects) -> Rows: ...


@dataclass(frozen=True)
class Importer:
    """An import kind of contract.md section 2 and the function that reads one file of it."""

    kind: str
    about: str
    read: Read
    suffixes: tuple[str, ...] = ()
    """File names to take when the user names a directory, e.g. (".prom", ".prom.gz")."""


_importers: dict[str, Importer] = {}


def importer(kind: str, about: str, suffixes: tuple[str, ...] = ()) -> Callable[[Read], Read]:
    """Registers a reader for an import kind."""

    def register(read: Read) -> Read:
        if kind in _importers:
            raise ValueError(f"import kind {kind!r} is registered twice: {_importers[kind].read} and {read}")
        _importers[kind] = Importer(kind, about, read, suffixes)
        return read

    return register


def discover(package: str) -> None:
    """Imports every module below `package`, so that their decorators run."""
    root = importlib.import_module(package)
    for module in pkgutil.walk_packages(root.__path__, prefix=f"{package}."):
        importlib.import_module(module.name)


def importers() -> dict[str, Importer]:
    """All import kinds by name."""
    discover("gpuwatch.collectors")
    return dict(sorted(_importers.items()))


def find_importer(kind: str) -> Importer:
    """The importer of `kind`, or UsageError with the kinds there are."""
    known = importers()
    if kind not in known:
        raise UsageError(f"import: unknown kind {kind!r}; known: {', '.join(known)}")
    return known[kind]


def plan_bundle(path: Path) -> Any:
    """The collectors.bundle.BundlePlan of a directory: what to import from it, as which kind, and what is missing."""
    return importlib.import_module("gpuwatch.collectors.bundle").plan(path)
