"""The audit log: who changed what and when, and which rows a new version of a list added or removed."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any

import sqlalchemy as sa

from gpuwatch.core.clock import rfc3339
from gpuwatch.core.errors import UsageError
from gpuwatch.state.core import State
from gpuwatch.state.list_columns import OWN_ROWS
from gpuwatch.state.versioned_lists import KINDS, VersionedLists

PAGE_MAX = 1000
DIFFERENCE_MAX = 100
"""Rows of a difference that are listed on each side; all are counted."""
READ_MAX = 200_000
"""Rows that one request reads to compute differences; later entries of the page have none until requested on their own."""
WORDS = {
    "rates": "rates",
    "teams": "teams",
    **{kind: kind for kind in KINDS},
    "periods": "period ",
    "tokens": "token ",
    "channels": "channel ",
    "findings": "finding ",
    "settings": "setting ",
    "imports": "import ",
    "sign-ins": "signed in",
}
"""Filters, and the text with which the matching entries begin."""
REPLACED = " replaced"

_audit = sa.table(
    "audit_log",
    *(sa.column(name) for name in ("id", "at_us", "actor", "what", "before", "after")),
)


@dataclass(frozen=True)
class Difference:
    """Rows that a version of a list added and removed compared with the one before: at most DIFFERENCE_MAX each."""

    added: tuple[dict[str, Any], ...]
    removed: tuple[dict[str, Any], ...]
    added_count: int
    removed_count: int


@dataclass(frozen=True)
class Entry:
    """One change; `before` and `after` are the recorded values (for lists: version and digest), None where there are none."""

    id: int
    at_us: int
    actor: str
    what: str
    before: Any
    after: Any
    difference: Difference | None


def entries(
    state: State, *, since_us: int | None = None, what: Sequence[str] = (), below: int | None = None, limit: int = 100
) -> list[Entry]:
    """Changes, newest first, at most `limit` (never more than PAGE_MAX).

    `since_us` and `what` (keys of WORDS) filter; `below` is the id of the last entry of the previous page. Raises
    UsageError for an unknown key.
    """
    query = sa.select(_audit).order_by(_audit.c.id.desc()).limit(max(0, min(limit, PAGE_MAX)))
    if since_us is not None:
        query = query.where(_audit.c.at_us >= since_us)
    if below is not None:
        query = query.where(_audit.c.id < below)
    if what:
        query = query.where(sa.or_(*(_audit.c.what.startswith(_beginning(word), autoescape=True) for word in what)))
    with state.transaction(write=False) as connection:
        rows = connection.execute(query).mappings().all()
    reader = _Reader(state)
    found = []
    for row in rows:
        before, after = _value(row["before"]), _value(row["after"])
        difference = reader.difference(row["what"], before, after)
        found.append(Entry(row["id"], row["at_us"], row["actor"], row["what"], before, after, difference))
    return found


def entry_words(entry: Entry) -> dict[str, Any]:
    """An entry as JSON."""
    return {
        "id": entry.id,
        "at": rfc3339(entry.at_us),
        "actor": entry.actor,
        "what": entry.what,
        "before": entry.before,
        "after": entry.after,
        "difference": None if entry.difference is None else asdict(entry.difference),
    }


class _Reader:
    """Computes the differences between versions, reading at most READ_MAX rows."""

    def __init__(self, state: State) -> None:
        self._state = state
        self._read = 0
        self._known: dict[tuple[str, int], Counter[str]] = {}

    def difference(self, what: str, before: Any, after: Any) -> Difference | None:
        kind = what.removesuffix(REPLACED)
        if kind == what or not isinstance(after, dict) or "version" not in after:
            return None
        old = before["version"] if isinstance(before, dict) else 0
        was, now = self._rows(kind, old), self._rows(kind, after["version"])
        if was is None or now is None:
            return None
        added, removed = now - was, was - now
        return Difference(_first_rows(added), _first_rows(removed), added.total(), removed.total())

    def _rows(self, kind: str, version: int) -> Counter[str] | None:
        """The rows of a version as text, counted; None once this request has read too many rows."""
        key = (kind, version)
        if key not in self._known:
            if self._read > READ_MAX:
                return None
            rows = _rows_of(self._state, kind, version) if version else []
            self._read += len(rows)
            self._known[key] = Counter(json.dumps(row, sort_keys=True, ensure_ascii=False) for row in rows)
        return self._known[key]


def _rows_of(state: State, kind: str, version: int) -> list[dict[str, Any]]:
    """The rows of a version as people read them, without line numbers and, for rates, without empty fields."""
    if kind not in KINDS and kind not in OWN_ROWS:
        return []
    rows = VersionedLists(state).rows(kind, version)
    if kind in OWN_ROWS:
        rows = [row | json.loads(row.get("more") or "{}") for row in rows]
        rows = [{name: value for name, value in row.items() if name not in ("line", "more")} for row in rows]
    if kind == "rates":
        rows = [{name: value for name, value in row.items() if value is not None} for row in rows]
    return [_readable(row) for row in rows]


def _readable(row: Mapping[str, Any]) -> dict[str, Any]:
    """A row as people read it: a time in RFC 3339 under its name without `_us`."""
    return {
        **{name: value for name, value in row.items() if not _is_time(name, value)},
        **{name.removesuffix("_us"): rfc3339(value) for name, value in row.items() if _is_time(name, value)},
    }


def _is_time(name: str, value: Any) -> bool:
    return name.endswith("_us") and isinstance(value, int)


def _first_rows(rows: Counter[str]) -> tuple[dict[str, Any], ...]:
    return tuple(json.loads(text) for text in sorted(rows.elements())[:DIFFERENCE_MAX])


def _value(text: str | None) -> Any:
    """A recorded value: parsed if it is JSON, else its text."""
    try:
        return None if text is None else json.loads(text)
    except ValueError:
        return text


def _beginning(word: str) -> str:
    if word not in WORDS:
        raise UsageError(f"what {word!r}: not a kind of change in the audit log; known: {', '.join(sorted(WORDS))}")
    return WORDS[word]
