"""Registry of the Kubernetes kinds that are read besides pods, nodes and events; each module registers its own."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from functools import cache
from typing import Any

from gpuwatch.collectors.shared.json_fields import Object, require_metadata
from gpuwatch.core.registry import discover

Columns = dict[str, Any]
Rows = Iterable[tuple[str, Columns]]
Handler = Callable[[Object, int | None], Rows]
"""Rows of one object as (store table, row without its cluster). The second argument is when the object was read, None
if that is unknown (a file). Raises Malformed for an object of the wrong shape."""


@dataclass(frozen=True)
class Kind:
    """A kind of object, its API path, and the function that reads it."""

    kind: str
    group: str
    """API group, "" for the core group."""
    plural: str
    versions: tuple[str, ...]
    """Supported versions, the preferred one first."""
    namespaced: bool
    rows: Handler

    def read(self, item: Object, observed_us: int | None) -> Rows:
        """Rows of an object. Raises Malformed, also for missing identity.

        A kind without versions is computed on request: servers do not store it, and its objects have no identity.
        """
        if self.versions:
            require_metadata(item, *(("name", "uid", "namespace") if self.namespaced else ("name", "uid")))
        return self.rows(item, observed_us)


_kinds: dict[tuple[str, str], Kind] = {}


def object_kind(
    kind: str, group: str, plural: str, versions: tuple[str, ...], namespaced: bool = True
) -> Callable[[Handler], Handler]:
    """Registers the function that reads a kind of object, from files and live."""

    def register(rows: Handler) -> Handler:
        if (group, kind) in _kinds:
            raise ValueError(f"kind {group}/{kind} is registered twice: {_kinds[group, kind].rows} and {rows}")
        _kinds[group, kind] = Kind(kind, group, plural, versions, namespaced, rows)
        return rows

    return register


@cache
def kinds() -> dict[tuple[str, str], Kind]:
    """Every registered kind by (API group, kind)."""
    discover("gpuwatch.collectors")
    return dict(sorted(_kinds.items()))


def find_kind(item: Object) -> Kind | None:
    """The registered kind of an object, None if there is none.

    Items of a typed list may lack the apiVersion: then the kind's name must be unique.
    """
    version, kind = item.get("apiVersion"), item.get("kind")
    if not isinstance(kind, str):
        return None
    if not isinstance(version, str) or not version:
        matches = [known for (_, name), known in kinds().items() if name == kind]
        return matches[0] if len(matches) == 1 else None
    return kinds().get((version.rpartition("/")[0], kind))
