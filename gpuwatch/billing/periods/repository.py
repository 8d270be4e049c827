"""Billing periods: closing, signing, reopening with a reason. Every closing is kept unchanged."""

from __future__ import annotations

import json
import re
import zlib
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import sqlalchemy as sa
from sqlalchemy.engine import Connection

from gpuwatch.billing.periods.corrections import repository as corrections
from gpuwatch.billing.periods.frozen import Row, content_of, digest_of, takes_back
from gpuwatch.billing.periods.records import Frozen, InForce, Signature
from gpuwatch.billing.periods.tables import MAX_PERIODS, card, closing, correction, signature
from gpuwatch.core.clock import Window, parse_window, rfc3339
from gpuwatch.core.errors import StoreError, UsageError
from gpuwatch.state.core import State, record

MAX_ROWS = 1_000_000
"""Rows of one closed period."""
MAX_CONTENT = 1 << 29
"""Bytes of a closing's content before compression."""
MAX_SIGNATURES = 1000
MAX_TEXT = 500
"""Characters of a reason, a note or a signer."""
FINE, COARSE = "fine", "coarse"
"""Levels of rows: with all dimensions, or with those of earlier releases."""

_NAME = re.compile(r"\d{4}-(W\d{2}|\d{2})", re.ASCII)
_HEAD = [column for column in closing.c if column.name != "content"]


class PeriodConflict(UsageError):
    """The state of a period forbids it: not over, closed already, overlapping a closed one, changed, or open."""

    def __init__(self, message: str, hint: str | None = None) -> None:
        super().__init__(message if hint is None else f"{message}; {hint}")
        self.message = message
        self.hint = hint


@dataclass(frozen=True)
class Closing:
    """One closing of a period. `digest` is the SHA-256 of its content; `reopened_us` is None while it is in force."""

    name: str
    number: int
    window: Window
    level: str
    closed_us: int
    closed_by: str
    digest: str
    context: Mapping[str, Any]
    summary: tuple[Row, ...]
    reopened_us: int | None
    reopened_by: str | None
    reason: str | None

    @property
    def forced(self) -> bool:
        """Whether it was closed although something was missing."""
        return bool(self.context.get("forced", False))


class Periods:
    """The periods of a state. Every method is one transaction, and raises StoreError if the state is unreachable."""

    def __init__(self, state: State) -> None:
        self._state = state

    def close(self, name: str, frozen: Frozen, actor: str, at_us: int) -> Closing:
        """Freezes a finished ISO week (`2026-W47`) or month (`2026-11`) as its next closing, audited.

        Corrections that were posted within it are part of its content. Raises UsageError for another name or too many
        rows, PeriodConflict for a period that is not over, touches a closed one, or was priced with cards that have
        changed since.
        """
        window = finished(name, at_us)
        if len(frozen.rows) > MAX_ROWS:
            raise UsageError(f"period {name}: {len(frozen.rows)} rows; {MAX_ROWS} are the most that are frozen")
        with self._state.transaction(write=True) as connection:
            _refuse_closed(connection, name, window)
            if _versions(connection) != dict(frozen.versions):
                raise PeriodConflict(f"period {name}: rates, owners or policies changed meanwhile; close it again")
            billed = corrections.billed(connection, window, name)
            parts = {
                "rows": frozen.rows,
                "published": frozen.published,
                "corrections": [one.as_dict() for one in billed],
            }
            content = content_of(name, rfc3339(window.start_us), rfc3339(window.end_us), frozen.versions, parts)
            packed = zlib.compress(content.encode())
            if len(content) > MAX_CONTENT:
                raise UsageError(f"period {name}: its rows are {len(content)} bytes; {MAX_CONTENT} are the most")
            last = connection.scalar(sa.select(sa.func.max(closing.c.number)).where(closing.c.name == name))
            number, digest = (last or 0) + 1, digest_of(content)
            connection.execute(
                sa.insert(closing).values(
                    name=name,
                    number=number,
                    start_us=window.start_us,
                    end_us=window.end_us,
                    level=FINE,
                    closed_us=at_us,
                    closed_by=actor,
                    digest=digest,
                    context=json.dumps({**frozen.context, "versions": dict(frozen.versions)}),
                    summary=json.dumps([dict(row) for row in frozen.summary]),
                    content=packed,
                )
            )
            after = json.dumps({"number": number, "rows": len(frozen.rows), "digest": digest, **frozen.context})
            record(connection, at_us, actor, f"period {name} closed", None, after)
            return _one(connection, name, number)

    def reopen(self, name: str, actor: str, reason: str, at_us: int) -> Closing:
        """Opens a closed period again, audited; new lines reverse the corrections posted for it.

        Raises UsageError without a reason, PeriodConflict if it is not closed.
        """
        _text("reason", reason)
        with self._state.transaction(write=True) as connection:
            found = _in_force(connection, name)
            connection.execute(
                sa.update(closing)
                .where(closing.c.name == name, closing.c.number == found.number)
                .values(reopened_us=at_us, reopened_by=actor, reason=reason.strip())
            )
            posted = corrections.read(connection, correction.c.name == name)
            if back := takes_back(posted):
                corrections.insert(connection, name, found.number, back, corrections.REOPENED, at_us)
            before = json.dumps({"number": found.number, "digest": found.digest})
            after = json.dumps({"reason": reason.strip()})
            record(connection, at_us, actor, f"period {name} reopened", before, after)
            return _one(connection, name, found.number)

    def sign(self, name: str, signer: str, note: str, actor: str, at_us: int) -> Signature:
        """Adds a signature to the closing in force, audited. Raises UsageError, PeriodConflict."""
        _text("name", signer)
        if len(note) > MAX_TEXT:
            raise UsageError(f"note: {len(note)} characters; {MAX_TEXT} are the most")
        with self._state.transaction(write=True) as connection:
            found = _in_force(connection, name)
            count = connection.scalar(sa.select(sa.func.count()).where(signature.c.name == name))
            if (count or 0) >= MAX_SIGNATURES:
                raise UsageError(f"period {name}: {MAX_SIGNATURES} signatures are the most")
            signed = Signature(name, found.number, found.digest, signer.strip(), note.strip(), at_us, actor)
            connection.execute(sa.insert(signature).values(**signed.__dict__))
            after = json.dumps({"number": found.number, "digest": found.digest, "signer": signed.signer})
            record(connection, at_us, actor, f"period {name} signed", None, after)
        return signed

    def names(self) -> list[str]:
        """Every period that was ever closed, the newest first; at most MAX_PERIODS."""
        query = sa.select(closing.c.name).group_by(closing.c.name).order_by(sa.func.max(closing.c.start_us).desc())
        with self._state.transaction(write=False) as connection:
            return [name for (name,) in connection.execute(query.limit(MAX_PERIODS))]

    def history(self, name: str) -> list[Closing]:
        """Every closing of a period, the newest first."""
        return self._read(closing.c.name == name)

    def get(self, name: str) -> Closing | None:
        """The closing of a period that is in force."""
        return next(iter(self._read(closing.c.name == name, closing.c.reopened_us.is_(None))), None)

    def in_force(self) -> list[InForce]:
        """Every closing that is in force, the newest period first; at most MAX_PERIODS."""
        names = ("name", "number", "start_us", "end_us", "level", "context")
        query = sa.select(*(closing.c[name] for name in names)).where(closing.c.reopened_us.is_(None))
        query = query.order_by(closing.c.start_us.desc()).limit(MAX_PERIODS)
        with self._state.transaction(write=False) as connection:
            return [
                InForce(
                    name, number, Window(start_us, end_us), level, known.get("versions", {}), known.get("infer", False)
                )
                for name, number, start_us, end_us, level, context in connection.execute(query)
                for known in (json.loads(context),)
            ]

    def at(self, window: Window) -> Closing | None:
        """The closing in force whose window is exactly this one."""
        exact = (closing.c.start_us == window.start_us, closing.c.end_us == window.end_us)
        return next(iter(self._read(closing.c.reopened_us.is_(None), *exact)), None)

    def content(self, name: str, number: int) -> str:
        """The text of a closing; its SHA-256 is the digest. Raises UsageError if there is none, StoreError if it is damaged."""
        query = sa.select(closing.c.content).where(closing.c.name == name, closing.c.number == number)
        with self._state.transaction(write=False) as connection:
            packed: bytes | None = connection.scalar(query)
        if packed is None:
            raise UsageError(f"period {name}: has no closing {number}; gpuwatch period list names those there are")
        try:
            reader = zlib.decompressobj()
            content = reader.decompress(packed, MAX_CONTENT)
            if not reader.eof:
                raise zlib.error("ends too early, or is too large")
            return content.decode()
        except (zlib.error, UnicodeDecodeError) as error:
            raise StoreError(
                f"period {name}: its content was damaged ({error}); restore the state from a back-up"
            ) from error

    def rows(self, found: Closing | InForce) -> dict[str, list[Row]]:
        """The lists of a content: `rows`, `published` and `corrections`; coarse closings have only `rows`."""
        content = json.loads(self.content(found.name, found.number))
        if isinstance(content, list):
            return {"rows": content}
        return {part: content[part] for part in ("rows", "published", "corrections")}

    def signatures(self, name: str) -> list[Signature]:
        """The signatures of all closings of a period, oldest first."""
        columns = [column for column in signature.c if column.name != "id"]
        query = sa.select(*columns).where(signature.c.name == name).order_by(signature.c.id).limit(MAX_SIGNATURES)
        with self._state.transaction(write=False) as connection:
            return [Signature(**row) for row in connection.execute(query).mappings()]

    def versions(self) -> dict[str, int]:
        """The current version of every card that prices and owners depend on."""
        with self._state.transaction(write=False) as connection:
            return _versions(connection)

    def _read(self, *found: sa.ColumnElement[bool]) -> list[Closing]:
        query = sa.select(*_HEAD).where(*found).order_by(closing.c.start_us.desc(), closing.c.number.desc())
        with self._state.transaction(write=False) as connection:
            return [_closing(row) for row in connection.execute(query.limit(MAX_PERIODS))]


def finished(name: str, now_us: int) -> Window:
    """The window of a week or month that is over. Raises UsageError for another name, PeriodConflict for an open one."""
    if not _NAME.fullmatch(name):
        raise UsageError(f"period {name!r}: name an ISO week such as 2026-W47 or a month such as 2026-11")
    window = parse_window(name, now_us)
    if window.end_us > now_us:
        raise PeriodConflict(f"period {name} is not over before {rfc3339(window.end_us)}; close it then")
    return window


def _refuse_closed(connection: Connection, name: str, window: Window) -> None:
    touches = sa.and_(closing.c.start_us < window.end_us, closing.c.end_us > window.start_us)
    other: str | None = connection.scalar(
        sa.select(closing.c.name).where(touches, closing.c.reopened_us.is_(None)).limit(1)
    )
    if other is not None:
        problem = "is closed already" if other == name else f"overlaps {other}, which is closed"
        raise PeriodConflict(f"period {name} {problem}; what changes later is a correction")


def _in_force(connection: Connection, name: str) -> Closing:
    found = connection.execute(sa.select(*_HEAD).where(closing.c.name == name, closing.c.reopened_us.is_(None))).first()
    if found is None:
        raise PeriodConflict(f"period {name} is not closed; gpuwatch period list names those that are")
    return _closing(found)


def _one(connection: Connection, name: str, number: int) -> Closing:
    return _closing(
        connection.execute(sa.select(*_HEAD).where(closing.c.name == name, closing.c.number == number)).one()
    )


def _closing(row: Any) -> Closing:
    same = ("name", "number", "level", "closed_us", "closed_by", "digest", "reopened_us", "reopened_by", "reason")
    return Closing(
        window=Window(row.start_us, row.end_us),
        context=json.loads(row.context),
        summary=tuple(json.loads(row.summary)),
        **{name: getattr(row, name) for name in same},
    )


def _versions(connection: Connection) -> dict[str, int]:
    query = sa.select(card.c.kind, sa.func.max(card.c.version)).group_by(card.c.kind)
    found = {kind: int(version) for kind, version in connection.execute(query)}
    return {kind: found[kind] for kind in sorted(found) if kind not in ("budgets", "recipients")}


def _text(name: str, value: str) -> None:
    if not value.strip():
        raise UsageError(f"{name}: say one")
    if len(value) > MAX_TEXT:
        raise UsageError(f"{name}: {len(value)} characters; {MAX_TEXT} are the most")
