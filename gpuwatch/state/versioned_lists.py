"""Lists that an administrator replaces as a whole, such as rates or budgets: every version is kept and audited."""

from __future__ import annotations

import json
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from hashlib import sha256
from typing import Any

from gpuwatch.core.clock import rfc3339
from gpuwatch.core.errors import ChangedMeanwhile, UsageError
from gpuwatch.state.core import State, newest_version, record
from gpuwatch.state.list_columns import JSON_ROWS, OWN_ROWS, Rows

KINDS = ("policies", "fx", "owned", "spot", "commitments", "budgets", "recipients", "detectors")
"""Lists whose rows are stored as JSON. Rates and ownership rules have a table each: see OWN_ROWS."""
MAX_ROWS = 100_000
"""Rows of one version of a list."""
MAX_VERSIONS = 1000
"""Versions that the history returns at most."""

Row = Mapping[str, Any]
"""A row: JSON values, with money and ratios as decimal text and times in microseconds."""


@dataclass(frozen=True)
class Version:
    """One version of a list: who set it, when, from which source, and the SHA-256 of its content."""

    kind: str
    version: int
    digest: str
    source: str
    actor: str
    at_us: int


class VersionedLists:
    """The versioned lists of a state. Every method is one transaction and raises StoreError where that fails."""

    def __init__(self, state: State) -> None:
        self._state = state

    def replace(
        self,
        kind: str,
        rows: Sequence[Row],
        actor: str,
        source: str,
        at_us: int,
        expected: Collection[str] | None = None,
    ) -> bool:
        """Makes `rows`, in this order, the new version of a list. True if that changes it.

        The caller has validated the rows. `expected` are the versions that may be replaced, None for any. Raises
        ChangedMeanwhile if the current one is not among them, UsageError for an unknown kind or more than MAX_ROWS.
        """
        stored_in = _rows_of(kind)
        if kind in KINDS and len(rows) > MAX_ROWS:
            raise UsageError(f"{kind}: {len(rows)} records; {MAX_ROWS} are the most one version has")
        texts = [_content(row) if kind in OWN_ROWS else _as_json(row) for row in rows]
        digest = sha256("\n".join(texts).encode()).hexdigest()
        import sqlalchemy as sa

        from gpuwatch.state.tables import CARD, ROWS

        with self._state.transaction(write=True) as connection:
            newest = newest_version(connection, kind)
            _check(kind, newest, expected)
            if digest == (_NOTHING if newest is None else newest.digest):
                return False
            key = {"kind": kind, "version": 1 if newest is None else newest.version + 1}
            head = key | {"digest": digest, "source": source, "actor": actor, "at_us": at_us}
            connection.execute(sa.insert(CARD).values(**head))
            if rows:
                kept = rows if kind in OWN_ROWS else [{"content": text} for text in texts]
                connection.execute(
                    sa.insert(ROWS[stored_in.table]), [{**row, **key, "position": n} for n, row in enumerate(kept)]
                )
            before = None if newest is None else json.dumps({"version": newest.version, "digest": newest.digest})
            after = {"version": key["version"], "digest": digest, "rows": len(rows), "source": source}
            record(connection, at_us, actor, f"{kind} replaced", before, json.dumps(after))
        return True

    def rows(self, kind: str, version: int | None = None) -> list[dict[str, Any]]:
        """The rows of a list in order: of the current version, or of an older one. [] where there are none."""
        stored_in = _rows_of(kind)
        fields = ", ".join(f'"{name}"' for name in stored_in.columns)
        newest = "(select max(version) from card where kind = :kind)" if version is None else ":version"
        found = self._state.read(
            f"select {fields} from {stored_in.table} where kind = :kind and version = {newest} order by position",
            **{"kind": kind} | ({} if version is None else {"version": version}),
        )
        return found if kind in OWN_ROWS else [json.loads(row["content"]) for row in found]

    def history(self, kind: str, limit: int = 100) -> list[Version]:
        """The versions of a list, newest first: at most `limit`, and never more than MAX_VERSIONS."""
        found = self._state.read(
            "select kind, version, digest, source, actor, at_us from card where kind = :kind"
            " order by version desc limit :most",
            kind=kind,
            most=max(0, min(limit, MAX_VERSIONS)),
        )
        return [Version(**row) for row in found]

    def version(self, kind: str) -> int:
        """The number of the current version: 0 before the first."""
        return self._state.card_version(kind)


_NOTHING = sha256(b"").hexdigest()
"""Digest of no rows: replacing an empty list with an empty list changes nothing."""


def _check(kind: str, newest: Any, expected: Collection[str] | None) -> None:
    """Raises ChangedMeanwhile unless the newest version is one of those expected."""
    version = 0 if newest is None else int(newest.version)
    if expected is None or str(version) in expected:
        return
    by = "" if newest is None else f", set by {newest.actor} at {rfc3339(newest.at_us)}"
    raise ChangedMeanwhile(f"{kind}: version {version}{by}, is in force, which is not the one that you read")


def _rows_of(kind: str) -> Rows:
    if kind not in KINDS and kind not in OWN_ROWS:
        raise UsageError(f"card {kind!r}: unknown; known: {', '.join(KINDS)}")
    return OWN_ROWS.get(kind, JSON_ROWS)


def _as_json(row: Row) -> str:
    return json.dumps(row, sort_keys=True, separators=(",", ":"), ensure_ascii=False)


def _content(row: Row) -> str:
    """The values of a row for its digest, without its line number; `more` counts only where it is set."""
    values = [value for name, value in row.items() if name != "line" and not (name == "more" and value is None)]
    return json.dumps(values)
