"""Charge ids: text that encodes the query and row of a charge, so that the charge can be found and explained later."""

from __future__ import annotations

import base64
import binascii
import json
import re
import zlib
from dataclasses import dataclass

from gpuwatch.core.clock import Window
from gpuwatch.core.errors import UsageError
from gpuwatch.ledger.dimensions import CAUSE, DIMENSIONS

VERSION = "c1"
"""Prefix of the id; a new encoding gets a new one."""
MAX_LENGTH = 2000
"""Characters of an id: job names are long, URLs are limited."""
MAX_TEXT = 16_384
"""Characters of a decompressed id."""
KINDS = ("allocated", "platform", "shared", "correction")

_SHAPE = re.compile(rf"{VERSION}\.[A-Za-z0-9_-]+", re.ASCII)
_PLACES = {name: place for place, name in enumerate((*DIMENSIONS, CAUSE))}


@dataclass(frozen=True)
class Asked:
    """A row of a chargeback: the window and filters of the query, and the values that identify the row.

    `group` has (dimension, value) pairs in the order of the query; a value is None where the row has none. `cause` is the
    row's own, whether or not the query groups by it. There is no team filter: access is checked when a charge is read.
    """

    window: Window
    group: tuple[tuple[str, str | None], ...]
    kind: str
    currency: str | None = None
    cause: str | None = None
    cluster: str | None = None
    pool: str | None = None


def encode(asked: Asked) -> str:
    """The id of a row: URL-safe text without padding, the same for the same row on every machine."""
    plain = [
        asked.window.start_us,
        asked.window.end_us,
        [[_PLACES[name], value] for name, value in asked.group],
        KINDS.index(asked.kind),
        asked.currency,
        asked.cause,
        asked.cluster,
        asked.pool,
    ]
    text = json.dumps(plain, separators=(",", ":"), ensure_ascii=False).encode()
    packed = zlib.compress(text, 9)
    body = b"z" + packed if len(packed) < len(text) else b"j" + text
    return f"{VERSION}.{base64.urlsafe_b64encode(body).decode().rstrip('=')}"


def decode(charge: str) -> Asked:
    """The row that an id stands for. Raises UsageError for text that encode did not make."""
    wrong = UsageError(
        f"charge {charge[:60]!r}: not a charge id; the field `charge` of "
        "gpuwatch chargeback --by name --format json has one for each job"
    )
    if len(charge) > MAX_LENGTH or not _SHAPE.fullmatch(charge):
        raise wrong
    try:
        body = base64.urlsafe_b64decode(charge.partition(".")[2] + "==")
        text = body[1:] if body[:1] == b"j" else _unpacked(body[1:])
        start_us, end_us, group, kind, currency, cause, cluster, pool = json.loads(text)
        words = [(DIMENSIONS[place] if place < len(DIMENSIONS) else CAUSE, value) for place, value in group]
        if not all(value is None or isinstance(value, str) for _, value in words):
            raise ValueError("a group has words")
        if not all(value is None or isinstance(value, str) for value in (currency, cause, cluster, pool)):
            raise ValueError("filters are words")
        asked = Asked(Window(start_us, end_us), tuple(words), KINDS[kind], currency, cause, cluster, pool)
        if encode(asked) != charge:
            raise ValueError("not as it is written")
    except (
        ValueError,
        TypeError,
        IndexError,
        KeyError,
        RecursionError,
        binascii.Error,
        zlib.error,
        UsageError,
    ) as error:
        raise wrong from error
    return asked


def _unpacked(body: bytes) -> bytes:
    unpacker = zlib.decompressobj()
    text = unpacker.decompress(body, MAX_TEXT)
    if unpacker.unconsumed_tail:
        raise ValueError("too long")
    return text
