"""Amounts as a person says them: durations, bytes, lists of names."""

from __future__ import annotations

from collections.abc import Sequence

_UNITS = ((86400, "day", "days"), (3600, "h", "h"), (60, "min", "min"), (1, "s", "s"))
_BYTES = ("bytes", "kB", "MB", "GB", "TB", "PB", "EB")


def duration(seconds: float) -> str:
    """`45 s`, `12 min`, `1 h 30 min`, `4 days 3 h`: the two largest units; below ten seconds one decimal."""
    if seconds < 0:
        return f"-{duration(-seconds)}"
    if seconds < 10:
        return f"{seconds:.1f}".rstrip("0").rstrip(".") + " s"
    for place, (length, one, many) in enumerate(_UNITS):
        if seconds < length:
            continue
        below = _UNITS[place + 1][0] if place + 1 < len(_UNITS) else 1
        whole, rest = divmod(round(seconds / below), length // below)
        if place and whole * length >= _UNITS[place - 1][0]:  # 59.9 min is 1 h
            return duration(whole * length)
        first = f"{whole:,} {one if whole == 1 else many}"
        return f"{first} {_part(place + 1, rest)}" if rest and below < length else first
    return "0 s"


def _part(place: int, amount: int) -> str:
    _, one, many = _UNITS[place]
    return f"{amount} {one if amount == 1 else many}"


def joined(names: Sequence[str]) -> str:
    """`a`, `a and b`, `a, b and c`."""
    return names[0] if len(names) == 1 else f"{', '.join(names[:-1])} and {names[-1]}"


def counted(number: int, noun: str) -> str:
    """`1 node`, `2,000 nodes`."""
    return f"{number:,} {noun}{'s' * (number != 1)}"


def first_and_more(names: Sequence[str], noun: str) -> str:
    """`n1`, `n1 and 3 more nodes`."""
    more = len(names) - 1
    return names[0] + (f" and {counted(more, f'more {noun}')}" if more else "")


def gpus_and_slices(gpus: int, slices: int) -> str:
    """`64 GPUs and 57 MIG slices`: what there is of both; empty for none."""
    return " and ".join(counted(many, noun) for many, noun in ((gpus, "GPU"), (slices, "MIG slice")) if many)


def size(count: float) -> str:
    """`980 GB`, `1.25 TB`: three significant digits, in powers of 1000."""
    place = 0
    while place < len(_BYTES) - 1 and abs(count) >= 999.5:
        count, place = count / 1000, place + 1
    digits = max(0, 2 - len(str(int(abs(count)))) + 1) if place else 0
    text = f"{count:,.{digits}f}"
    return f"{text.rstrip('0').rstrip('.') if '.' in text else text} {_BYTES[place]}"
