"""Damage of SQLite's write-ahead log, which SQLite drops without an error together with all later changes.

The format is that of https://www.sqlite.org/walformat.html: a header of 32 bytes, then frames of 24 bytes and a page. A
checksum runs through all frames; the frames of the current log have the salts of its header.
"""

from __future__ import annotations

import logging
import struct
import time
from dataclasses import dataclass
from pathlib import Path
from shlex import quote

from gpuwatch.core.clock import rfc3339
from gpuwatch.core.errors import StoreError

HEADER_BYTES, FRAME_BYTES = 32, 24
MAGIC = {0x377F0682: "<", 0x377F0683: ">"}
"""Byte order of the checksum by the first number of the log."""
MAX_BYTES = 64 << 20
"""Larger logs are not checked; SQLite folds the log into the file every 4 MB or so."""
LOOKS, LOOK_PAUSE_S = 3, 0.1
"""Another process may be writing at the first look."""
log = logging.getLogger(__name__)


@dataclass(frozen=True)
class Lost:
    """What cannot be read: the whole log, or `commits` transactions after the first damaged frame."""

    header: bool
    commits: int


def check_log(database: Path) -> None:
    """Raises StoreError if committed changes in the log of a SQLite file cannot be read.

    A single unfinished change at the end is what a crash leaves: it was never acknowledged, and is only logged.
    """
    path = database.with_name(f"{database.name}-wal")
    lost = None
    for look in range(LOOKS):
        lost = _lost(path)
        if lost is None:
            return
        if look < LOOKS - 1:
            time.sleep(LOOK_PAUSE_S)
    assert lost is not None
    try:
        written = rfc3339(path.stat().st_mtime_ns // 1000)
        folded = rfc3339(database.stat().st_mtime_ns // 1000)
    except OSError:
        return  # folded into the file meanwhile
    if not lost.header and lost.commits <= 1:
        log.warning("%s: the last change, of %s, is incomplete and was dropped", path, written)
        return
    what = "all changes in it" if lost.header else f"{lost.commits} changes in it"
    raise StoreError(
        f"the change log {path} is damaged: {what}, the last of {written}, cannot be read; the file without them is from "
        f"{folded}. Restore a backup: gpuwatch restore BACKUP --state-only --data {quote(str(database.parent))}; or go on "
        f"without what changed between these two times, tokens and revocations included: "
        f"mv {quote(str(path))} {quote(f'{path}.damaged')}"
    )


def _lost(path: Path) -> Lost | None:
    """What of a log cannot be read; None if there is no log, or all of it is fine."""
    try:
        size = path.stat().st_size
        content = path.read_bytes() if 0 < size <= MAX_BYTES else b""
    except OSError:
        return None
    if not content:
        return None
    if len(content) < HEADER_BYTES:
        return Lost(True, 0)
    magic, _, page_bytes = struct.unpack_from(">3I", content)
    order = MAGIC.get(magic)
    if order is None or not 512 <= page_bytes <= 65_536:
        return Lost(True, 0)
    sums = _sums(content[:24], order, (0, 0))
    if sums != struct.unpack_from(">2I", content, 24):
        return Lost(True, 0)
    salts, step = content[16:24], FRAME_BYTES + page_bytes
    whole, commits = True, 0
    for at in range(HEADER_BYTES, len(content) - step + 1, step):
        if content[at + 8 : at + 16] != salts:
            whole = False  # of an earlier log, unless frames of this one follow
            continue
        if whole:
            sums = _sums(content[at : at + 8], order, sums)
            sums = _sums(content[at + FRAME_BYTES : at + step], order, sums)
            whole = sums == struct.unpack_from(">2I", content, at + 16)
        if not whole and struct.unpack_from(">I", content, at + 4)[0]:
            commits += 1
    return Lost(False, commits) if commits else None


def _sums(part: bytes, order: str, sums: tuple[int, int]) -> tuple[int, int]:
    """SQLite's running checksum."""
    first, second = sums
    words = struct.unpack(f"{order}{len(part) // 4}I", part)
    for one, two in zip(words[::2], words[1::2], strict=True):
        first = (first + one + second) & 0xFFFFFFFF
        second = (second + two + first) & 0xFFFFFFFF
    return first, second
