"""Pages of a list: an opaque cursor that names the last row seen, and the window that the first page meant."""

from __future__ import annotations

import base64
import binascii
import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from hashlib import blake2b
from typing import Annotated, TypeVar

from fastapi import Query

from gpuwatch.api.common import window_of
from gpuwatch.api.errors import ApiError
from gpuwatch.core.clock import Window
from gpuwatch.core.errors import UsageError

LIMIT, LIMIT_MAX = 100, 1000
MAX_CURSOR = 2000
"""Characters of a cursor."""
_MAX_KEY = 1000
_MOST = 253_402_300_799_000_000
"""Microseconds of the end of the year 9999."""

Limit = Annotated[int, Query(ge=1, le=LIMIT_MAX, description="Maximum number of rows in this page.")]
CursorText = Annotated[
    str | None,
    Query(
        max_length=MAX_CURSOR,
        pattern=r"^[A-Za-z0-9_-]*$",
        description="`next` of the previous page, with otherwise the same parameters.",
    ),
]

T = TypeVar("T")


@dataclass(frozen=True)
class Cursor:
    """Where a page ended: the identity of its last row, how many rows went before, and the window in microseconds."""

    key: str
    position: int
    window: Window | None


def question(parameters: Mapping[str, object]) -> str:
    """A digest of what was asked, so that a cursor is not used for something else."""
    text = json.dumps({k: v for k, v in parameters.items() if v is not None}, sort_keys=True, default=str)
    return blake2b(text.encode(), digest_size=6).hexdigest()


def encode(cursor: Cursor, asked: str) -> str:
    """The cursor as a URL carries it."""
    window = None if cursor.window is None else [cursor.window.start_us, cursor.window.end_us]
    text = json.dumps([asked, cursor.key, cursor.position, window], separators=(",", ":"))
    return base64.urlsafe_b64encode(text.encode()).rstrip(b"=").decode()


def decode(text: str | None, asked: str) -> Cursor | None:
    """The cursor of a text; ApiError 400 naming `cursor` for one that is not ours or belongs to another question."""
    if not text:
        return None
    try:
        raw = base64.urlsafe_b64decode(text + "=" * (-len(text) % 4))
        parameters, key, position, window = json.loads(raw)
        span = None if window is None else _span(*window)
        if not isinstance(key, str) or len(key) > _MAX_KEY:
            raise ValueError("no key")
        cursor = Cursor(key, _whole(position), span)
    except (binascii.Error, ValueError, TypeError, RecursionError, UsageError):
        raise ApiError(400, "cursor: not one of ours", "take `next` of the page before", "cursor") from None
    if parameters != asked:
        raise ApiError(400, "cursor: belongs to other parameters", "leave the other parameters as they were", "cursor")
    return cursor


def page(
    items: Sequence[T],
    limit: int,
    cursor: Cursor | None,
    asked: str,
    identity: Callable[[T], str],
    window: Window | None = None,
) -> tuple[list[T], str | None]:
    """(rows of this page, cursor of the next or None).

    A page goes on after the row that the last one ended with, wherever that stands by now; where it is gone, at its
    place.
    """
    start = 0
    if cursor is not None:
        known = (place + 1 for place, item in enumerate(items) if identity(item)[:_MAX_KEY] == cursor.key)
        start = next(known, min(cursor.position, len(items)))
    chosen = list(items[start : start + limit])
    if not chosen or start + limit >= len(items):
        return chosen, None
    last = Cursor(identity(chosen[-1])[:_MAX_KEY], start + len(chosen), window)
    return chosen, encode(last, asked)


def rolling_place(cursor: str | None, asked: str, window: str, now_us: int) -> tuple[Window, int]:
    """(window, rows before this page): a window such as 7d stays that of the first page."""
    place = decode(cursor, asked)
    if place is None or place.window is None:
        return window_of(window, now_us), 0
    return place.window, place.position


def following(offset: int | None, span: Window, asked: str) -> str | None:
    """The cursor of the page that begins after so many rows of a window; None for None."""
    return None if offset is None else encode(Cursor("", offset, span), asked)


def _span(start_us: object, end_us: object) -> Window:
    return Window(_whole(start_us), _whole(end_us))


def _whole(value: object) -> int:
    if not isinstance(value, int) or isinstance(value, bool) or not 0 <= value <= _MOST:
        raise ValueError("not a whole number, or not an instant of these centuries")
    return value
