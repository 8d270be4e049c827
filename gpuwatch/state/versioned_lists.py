"""Cards: what people set as a list of records and change as a whole. Every version is kept, and each change is audited."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from hashlib import sha256
from typing import Any

import sqlalchemy as sa

from gpuwatch.core.errors import UsageError
from gpuwatch.state.core import CARD, State, record

KINDS = ("policies", "fx", "owned", "spot", "commitments", "budgets", "recipients", "detectors")
"""Kinds of cards of this table; rates and ownership rules have tables of their own (core.py)."""
MAX_ROWS = 100_000
"""Records of one version of a card."""
MAX_VERSIONS = 1000
"""Versions that the history lists."""

_row = sa.Table(
    "card_row",
    sa.MetaData(),
    sa.Column("kind", sa.String),
    sa.Column("version", sa.Integer),
    sa.Column("position", sa.Integer),
    sa.Column("content", sa.Text),
)

Row = Mapping[str, Any]
"""A record: JSON values, money and ratios as decimal text, times in microseconds."""


@dataclass(frozen=True)
class Version:
    """One version of a card: who set it, when, from what, and the SHA-256 of what it says."""

    kind: str
    version: int
    digest: str
    source: str
    actor: str
    at_us: int


class Cards:
    """The cards of a state. Every method is one transaction and raises StoreError where it cannot be reached."""

    def __init__(self, state: State) -> None:
        self._state = state

    def replace(self, kind: str, rows: Sequence[Row], actor: str, source: str, at_us: int) -> bool:
        """Makes `rows`, in their order, the card in force as a new version. True if that changed it.

        The caller has validated the records. Raises UsageError for an unknown kind or more than MAX_ROWS.
        """
        _check(kind)
        if len(rows) > MAX_ROWS:
            raise UsageError(f"{kind}: {len(rows)} records; {MAX_ROWS} are the most one version has")
        texts = [json.dumps(row, sort_keys=True, separators=(",", ":"), ensure_ascii=False) for row in rows]
        digest = sha256("\n".join(texts).encode()).hexdigest()
        with self._state.transaction(write=True) as connection:
            newest = connection.execute(
                sa.select(CARD).where(CARD.c.kind == kind).order_by(CARD.c.version.desc()).limit(1)
            ).first()
            if digest == (sha256(b"").hexdigest() if newest is None else newest.digest):
                return False
            key = {"kind": kind, "version": 1 if newest is None else newest.version + 1}
            head = key | {"digest": digest, "source": source, "actor": actor, "at_us": at_us}
            connection.execute(sa.insert(CARD).values(**head))
            if texts:
                connection.execute(
                    sa.insert(_row), [key | {"position": n, "content": text} for n, text in enumerate(texts)]
                )
            before = None if newest is None else json.dumps({"version": newest.version, "digest": newest.digest})
            after = {"version": key["version"], "digest": digest, "rows": len(rows), "source": source}
            record(connection, at_us, actor, f"{kind} replaced", before, json.dumps(after))
        return True

    def rows(self, kind: str, version: int | None = None) -> list[dict[str, Any]]:
        """The records in force in their order, or those of an older version; [] where there are none."""
        _check(kind)
        newest = sa.select(sa.func.max(CARD.c.version)).where(CARD.c.kind == kind).scalar_subquery()
        query = sa.select(_row.c.content).order_by(_row.c.position)
        query = query.where(_row.c.kind == kind, _row.c.version == (newest if version is None else version))
        with self._state.transaction(write=False) as connection:
            return [json.loads(content) for (content,) in connection.execute(query)]

    def history(self, kind: str, limit: int = 100) -> list[Version]:
        """The versions of a card (also `rates` and `teams`), the newest first; at most `limit`, never above MAX_VERSIONS."""
        names = [c.name for c in CARD.c]
        query = sa.select(CARD).where(CARD.c.kind == kind).order_by(CARD.c.version.desc())
        with self._state.transaction(write=False) as connection:
            found = connection.execute(query.limit(max(0, min(limit, MAX_VERSIONS)))).mappings().all()
        return [Version(**{name: row[name] for name in names}) for row in found]

    def version(self, kind: str) -> int:
        """The number of the version in force: 0 before the first."""
        return self._state.card_version(kind)


def _check(kind: str) -> None:
    if kind not in KINDS:
        raise UsageError(f"card {kind!r}: unknown; known: {', '.join(KINDS)}")
