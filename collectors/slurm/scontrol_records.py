"""Splits scontrol's text into records, and a record into its keys and values. Pure."""

from __future__ import annotations

import re
from collections.abc import Iterator

from gpuwatch.collectors.shared.text_files import Lines
from gpuwatch.core.errors import UnreadableInput
from gpuwatch.core.model import Rejects, Source

MAX_RECORD_LINES = 100_000
MAX_RECORD_LINE_BYTES = 8 << 20

NOTHING = tuple(f"No {what} in the system" for what in ("jobs", "nodes", "partitions", "reservations"))
"""What scontrol prints for an empty list."""
BEGINNINGS = ("JobId=", "NodeName=", "PartitionName=", "ReservationName=")
"""The possible first keys of a record."""

_KEY = re.compile(r"(?:^|\s)([A-Z][A-Za-z_]*(?:[/:][A-Za-z:_]+)*)=")
_FREE_TEXT = ("JobName", "Comment", "AdminComment", "SystemComment", "Command", "WorkDir", "StdErr", "StdIn", "StdOut")
_ONCE = frozenset(
    {
        *("JobId", "ArrayJobId", "ArrayTaskId", "HetJobId", "UserId", "Account", "QOS", "JobState", "Partition"),
        *("RunTime", "SubmitTime", "StartTime", "EndTime", "SuspendTime", "SecsPreSuspend"),
        *("NodeList", "NumNodes", "TRES", "AllocTRES", "ReqTRES", "NodeName", "State", "Gres", "Partitions"),
    }
)
"""Keys that must be unique. A duplicate was forged by a job name or comment, or two records were merged."""

Pairs = list[tuple[str, str]]


def split_records(lines: Lines, source: Source, rejects: Rejects) -> Iterator[tuple[int, list[str]]]:
    """Yields the lines of each record with the number of its first; text before the first record is rejected."""
    record: list[str] = []
    first, stray_text, seen = 0, False, False
    for number, line in lines:
        if line.startswith(BEGINNINGS):
            if record:
                yield first, record
            record, first, seen = [line], number, True
        elif line.startswith(NOTHING):
            seen = True
        elif record and len(record) < MAX_RECORD_LINES:
            record.append(line)
        elif record:
            rejects.add(f"record of more than {MAX_RECORD_LINES} lines", source.path, number, line)
        elif line.strip() and not stray_text:
            stray_text = True
            rejects.add("text before the first record", source.path, number, line)
    if record:
        yield first, record
    if not seen:
        raise UnreadableInput(
            f"{source.path}: no line starts with JobId=, NodeName=, PartitionName= or ReservationName=; run "
            "`scontrol show job -d` or `scontrol show node -d`"
        )


def parse_pairs(record: list[str]) -> Pairs:
    """Keys and values in order. Raises ValueError when a key that must be unique is not."""
    lines = [line.strip() for line in record if line.strip()]
    pairs: Pairs = []
    for line in lines:
        pairs.extend(_line_pairs(line, len(lines) > 1))
    once = [key for key, _ in pairs if key in _ONCE]
    if len(once) != len(set(once)):
        raise ValueError("duplicate key: a job name or comment imitates it, or two records were merged")
    return pairs


def _line_pairs(line: str, several_lines: bool) -> Iterator[tuple[str, str]]:
    """The pairs of a line. In a record of several lines, free text extends to the end of its line."""
    matches = list(_KEY.finditer(line))
    for i, match in enumerate(matches):
        if several_lines and match[1] in _FREE_TEXT:
            yield match[1], line[match.end() :].strip()
            return
        end = matches[i + 1].start() if i + 1 < len(matches) else len(line)
        yield match[1], line[match.end() : end].strip()


def first_values(pairs: Pairs) -> dict[str, str]:
    """The first value of each key."""
    fields: dict[str, str] = {}
    for key, value in pairs:
        fields.setdefault(key, value)
    return fields


def first_word(fields: dict[str, str], key: str) -> str | None:
    """The first word of a value, None if the key is missing or empty."""
    return next(iter(fields.get(key, "").split()), None)
