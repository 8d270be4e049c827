"""Parses the values that Slurm prints: host lists, GPUs, durations, times and comments. Pure."""

from __future__ import annotations

import json
import re
from collections.abc import Iterable
from datetime import datetime
from functools import lru_cache
from itertools import product
from typing import Any, NamedTuple
from zoneinfo import ZoneInfo

from gpuwatch.core.clock import SECOND_US, to_us

MAX_HOSTS = 100_000
MAX_DEVICES = 1_000_000
MAX_ARRAY_TASKS = 1000
CACHED_TEXTS = 1024
CACHED_TIMES = 1 << 16
"""Most times of a poll were already parsed in the previous one."""

_UNSET = frozenset({"", "unknown", "none", "n/a", "(null)", "invalid", "none assigned", "unlimited"})
_RANGE = re.compile(r"(\d+)(?:-(\d+)(?::(\d+))?)?")
_MIG_NAME = re.compile(r"(?:(?!\d+c\.)(.*?)[_.:-])?((?:\d+c\.)?\d+g\.\d+gb(?:\+[a-z0-9.]+)*)", re.IGNORECASE)
_DURATION = re.compile(r"(?:(?:(\d+)-)?(\d+):)?(\d+):(\d+)(?:\.\d+)?")


class Gpus(NamedTuple):
    """Devices of one type: `gpu_type` None when untyped, `profile` None for whole GPUs."""

    gpu_type: str | None
    profile: str | None
    number: int
    indexes: str | None = None
    """Device indexes on the node such as `0,1,2`, None when unknown."""
    shares: int | None = None
    """Shares (shards, or MPS percents) of these devices together; None for devices that are held whole."""


def known(text: str | None) -> str | None:
    """The text, or None for the placeholders that Slurm prints for an unset value."""
    return None if text is None or text.strip().lower() in _UNSET else text.strip()


def expand_hostlist(text: str) -> tuple[str, ...]:
    """Host names of `gpu[01-03,07],bad01`; several brackets in one name multiply, steps (`[0-8:2]`) are supported.

    Raises ValueError for brackets that do not match, for a range that runs backwards, or for more than MAX_HOSTS hosts.
    """
    hosts: list[str] = []
    for part in split_outside(text, "[]"):
        segments = re.split(r"\[([^\[\]]*)\]", part)
        if any("[" in segment or "]" in segment for segment in segments):
            raise ValueError("host list: brackets do not match")
        remaining = MAX_HOSTS - len(hosts)
        choices = [_numbers(segment, remaining) if i % 2 else [segment] for i, segment in enumerate(segments)]
        size = 1
        for choice in choices:
            size *= len(choice)
        if size > remaining:
            raise ValueError(f"host list: more than {MAX_HOSTS} hosts")
        hosts.extend("".join(combination) for combination in product(*choices))
    return tuple(hosts)


def split_outside(text: str, brackets: str) -> list[str]:
    """Splits at commas outside a pair of brackets and drops empty parts."""
    opening, closing = brackets[0], brackets[1]
    parts, depth, start = [], 0, 0
    for i, char in enumerate(text):
        if char == opening:
            depth += 1
        elif char == closing:
            depth -= 1
        elif char == "," and depth <= 0:
            parts.append(text[start:i].strip())
            start = i + 1
    return [part for part in (*parts, text[start:].strip()) if part]


@lru_cache(CACHED_TEXTS)
def tres_gpus(text: str) -> tuple[Gpus, ...]:
    """GPUs of AllocTRES, ReqTRES or TRES by type, in alphabetical order.

    `gres/gpu=4` and `gres/gpu:h100=4` are the same four devices, in either order. If the untyped total exceeds the
    typed counts, the difference is returned as untyped GPUs. Raises ValueError for an invalid count.
    """
    total, typed = 0, dict[str, int]()
    for item in text.split(","):
        name, _, count = item.partition("=")
        if name == "gres/gpu":
            total = max(total, device_count(count))
        elif name.startswith("gres/gpu:"):
            kind = name.removeprefix("gres/gpu:")
            typed[kind] = max(typed.get(kind, 0), device_count(count))
    found = [Gpus(*gpu_type_of(kind), count) for kind, count in sorted(typed.items()) if count]
    rest = total - sum(gpus.number for gpus in found)
    return (*found, Gpus(None, None, rest)) if rest > 0 else tuple(found)


@lru_cache(CACHED_TEXTS)
def gres_gpus(text: str) -> tuple[Gpus, ...]:
    """GPUs of `gpu:h100:4(IDX:0-3),gpu:1g.10gb:1(IDX:2)`, in the printed order, without other gres and zero counts.

    Raises ValueError.
    """
    found = []
    for item in split_outside(text, "()"):
        body, _, note = item.partition("(")
        words = re.split("[:=]", body.removeprefix("gres/").removeprefix("gres:"))
        if words[0] != "gpu":
            continue
        if len(words) == 1 or (len(words) == 2 and not words[1].isdigit()):
            words.append("1")  # a gres without a count is one device
        count, kind = device_count(words[-1]), ":".join(words[1:-1])
        if count:
            gpu_type, profile = gpu_type_of(kind) if kind else (None, None)
            found.append(Gpus(gpu_type, profile, count, _indexes(note, count)))
    return tuple(found)


def gpu_type_of(name: str) -> tuple[str | None, str | None]:
    """GPU type and MIG profile of a gres type: `a100_1g.5gb` -> (a100, 1g.5gb), `h100` -> (h100, None)."""
    match = _MIG_NAME.fullmatch(name)
    if not match:
        return name, None
    kind = match[1]
    return (None if not kind or kind.lower() == "mig" else kind), match[2].lower()


def spread(total: int, nodes: int) -> list[int]:
    """Devices or shares per node when only the total is known: spread evenly, the first nodes get the remainder."""
    each, rest = divmod(total, nodes)
    return [each + (1 if i < rest else 0) for i in range(nodes)]


def duration_us(text: str | None) -> int | None:
    """Microseconds of `[D-]HH:MM:SS` or `MM:SS[.fff]` (the fraction is dropped), None when unset."""
    match = _DURATION.fullmatch(known(text) or "")
    if not match:
        return None
    days, hours, minutes, seconds = (int(part or 0) for part in match.groups())
    return (((days * 24 + hours) * 60 + minutes) * 60 + seconds) * SECOND_US


@lru_cache(CACHED_TIMES)
def possible_times(text: str | None, tz: ZoneInfo) -> tuple[int, ...]:
    """The instants (µs) a printed time can mean: none, one, or two when clocks are set back.

    Of two, the earlier comes first. A time that was skipped when clocks were set forward is read with the old offset.
    A time with its own offset, or in seconds since the epoch (SLURM_TIME_FORMAT=%s), is unambiguous. Raises ValueError.
    """
    printed = known(text)
    if printed is None:
        return ()
    if printed.isascii() and printed.isdigit():
        return (int(printed) * SECOND_US,) if 9 <= len(printed) <= 11 else _refuse_time()
    try:
        moment = datetime.fromisoformat(printed)
        if moment.tzinfo is not None:
            return (to_us(moment),)
        first, second = (to_us(moment.replace(tzinfo=tz, fold=fold)) for fold in (0, 1))
    except (ValueError, OverflowError):
        return _refuse_time()
    return (first,) if first == second else (first, second)


def instant(text: str | None, tz: ZoneInfo) -> int | None:
    """The earliest instant a printed time can mean, None when unset."""
    return next(iter(possible_times(text, tz)), None)


def comment_labels(comment: str | None) -> dict[str, Any]:
    """The members of a comment that is a JSON object (its quotes may be escaped), else none."""
    text = (comment or "").strip()
    if not text.startswith("{"):
        return {}
    for candidate in (text, text.replace('\\"', '"')):
        try:
            value = json.loads(candidate, parse_constant=_refuse_constant)
        except (ValueError, RecursionError):
            continue
        return value if isinstance(value, dict) else {}
    return {}


def devices_by_profile(gpus: Iterable[Gpus]) -> dict[str, int]:
    """Devices by MIG profile, "" for whole GPUs: `{"": 8, "1g.10gb": 7}`."""
    counts: dict[str, int] = {}
    for group in gpus:
        counts[group.profile or ""] = counts.get(group.profile or "", 0) + group.number
    return counts


def task_ids(job: str, tasks: str) -> list[str]:
    """`7`, `2-3%2` -> [`7_2`, `7_3`]; one id as printed when the list is truncated or exceeds MAX_ARRAY_TASKS."""
    listed = tasks.strip("[]").partition("%")[0]
    try:
        return [f"{job}_{int(number)}" for number in _numbers(listed, MAX_ARRAY_TASKS)]
    except ValueError:
        return [f"{job}_[{tasks.strip('[]')}]"]


def array_size(tasks: str) -> int | None:
    """How many tasks `0-9,12%4` lists; None when the list is truncated (`0-2,4,...`) or too long."""
    try:
        return len(_numbers(tasks.strip("[]").partition("%")[0], MAX_DEVICES))
    except ValueError:
        return None


def least_count(text: str | None) -> int | None:
    """A count such as NNodes (`2`, or the minimum of a requested range `2-4`), None for anything else."""
    match = re.match(r"(\d{1,7})(?:-\d+)?\Z", (text or "").strip())
    return int(match[1]) if match else None


def integer(text: str | None) -> int | None:
    """A whole number of up to eleven digits, None for anything else."""
    digits = (text or "").strip()
    return int(digits) if digits.isascii() and digits.isdigit() and len(digits) < 12 else None


def _numbers(text: str, limit: int) -> list[str]:
    """The numbers of `01-03,07` with their leading zeros. Raises ValueError."""
    numbers: list[str] = []
    for part in text.split(","):
        match = _RANGE.fullmatch(part.strip())
        if not match:
            raise ValueError("host list: a range is not a number or a span of numbers")
        first, last, step = match[1], match[2] or match[1], int(match[3] or 1)
        if max(len(first), len(last)) > 18 or int(last) < int(first) or step < 1:
            raise ValueError("host list: a range runs backwards or is too long")
        if len(numbers) + (int(last) - int(first)) // step + 1 > limit:
            raise ValueError(f"host list: more than {limit} hosts")
        numbers.extend(str(n).zfill(len(first)) for n in range(int(first), int(last) + 1, step))
    return numbers


def _indexes(note: str, count: int) -> str | None:
    """`IDX:0-1,4)` -> `0,1,4`; None without indexes or when there are not `count` of them."""
    numbers = printed_indexes(note)
    return ",".join(numbers) if len(numbers) == count else None


def printed_indexes(note: str) -> list[str]:
    """`IDX:0-1,4)` -> 0, 1, 4; none where there are no indexes or they cannot be read."""
    match = re.search(r"IDX:([0-9,-]+)", note)
    try:
        return [str(int(number)) for number in _numbers(match[1], MAX_HOSTS)] if match else []
    except ValueError:
        return []


def device_count(text: str) -> int:
    """A printed number of devices or shares. Raises ValueError."""
    if not (text.isascii() and text.isdigit()) or len(text) > 9 or int(text) > MAX_DEVICES:
        raise ValueError(f"GPU count is not a number up to {MAX_DEVICES}")
    return int(text)


def _refuse_constant(word: str) -> None:
    raise ValueError(f"{word} is not valid JSON")


def _refuse_time() -> tuple[int, ...]:
    raise ValueError("a time cannot be parsed")
