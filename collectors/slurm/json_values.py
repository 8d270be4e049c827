"""Parses the values of Slurm's JSON, versions 21.08 to 25.11: numbers, times, states and lists. Pure."""

from __future__ import annotations

from typing import Any

from gpuwatch.collectors.shared.json_fields import Malformed, Object, mappings, string
from gpuwatch.collectors.slurm.shares import SHARING_GRES
from gpuwatch.core.clock import SECOND_US

GPU_GRES = SHARING_GRES | {"gpu"}
MAX_NUMBER = 99_999_999_999
"""Eleven digits: the latest second since the epoch, and larger than any other supported value."""
NO_VALUE = frozenset(size - less for size in (1 << 32, 1 << 64) for less in (1, 2))
"""32-bit and 64-bit INFINITE and NO_VAL, which versions before 23.11 print as numbers."""


def number_of(value: Any) -> int | None:
    """The whole number of `5`, `5.0` or `{"set": true, "infinite": false, "number": 5}`; None when unset.

    Infinite and negative numbers and Slurm's markers for "no value" count as unset. Raises Malformed for anything else.
    """
    if isinstance(value, dict):
        if not value.get("set") or value.get("infinite"):
            return None
        value = value.get("number")
    if value is None or value == "":
        return None
    if isinstance(value, bool) or not isinstance(value, int | float) or value != value // 1:
        raise Malformed("a number is not a whole number")
    if value < 0 or value in NO_VALUE:
        return None
    if value > MAX_NUMBER:
        raise Malformed(f"a number is larger than {MAX_NUMBER}")
    return int(value)


def moment_us(parent: Object, key: str) -> int | None:
    """The time under `key` in microseconds, None for 0 and when unset. Raises Malformed."""
    seconds = number_of(parent.get(key))
    return seconds * SECOND_US if seconds else None


def count_of(parent: Object, key: str) -> int | None:
    """The whole number under `key`, None when unset. Raises Malformed, also for an impossible number of nodes."""
    number = number_of(parent.get(key))
    if number is not None and number >= 1 << 31 and key in ("node_count", "allocation_nodes"):
        raise Malformed(f"{key} is not a count of nodes")
    return number


def job_number(job: Object) -> int:
    """The job's number. Raises Malformed without one."""
    number = count_of(job, "job_id")
    if not number:
        raise Malformed("job_id is not a job number")
    return number


def states_of(value: Any) -> list[str]:
    """The states in upper case: a text in old versions, a list in newer ones. Raises Malformed."""
    items = value if isinstance(value, list) else [value]
    states = [string({"state": item}, "state") or "" for item in items]
    return [text.strip().upper() for text in states if text.strip()]


def texts(parent: Object, key: str, empty: bool = False) -> list[str]:
    """A list of texts; a single text becomes a list of one. Empty ones are dropped unless `empty`. Raises Malformed."""
    value = parent.get(key)
    items = value if isinstance(value, list) else [value] if value else []
    found = [string({key: item}, key) or "" for item in items]
    return found if empty else [text for text in found if text]


def tres_text(tres: Object, key: str) -> str:
    """CPUs, memory, GPUs and shares of GPUs of a list of {type, name, id, count}, in the format of `sacct -P`."""
    gpus = []
    for item in mappings(tres, key):
        name, kind = string(item, "name") or "", string(item, "type")
        if kind in ("cpu", "mem") and not name and (count := number_of(item.get("count"))):
            gpus.append(f"{kind}={count}{'M' if kind == 'mem' else ''}")
        if kind == "gres" and name.split(":")[0] in GPU_GRES and (count := number_of(item.get("count"))):
            gpus.append(f"gres/{name}={count}")
    return ",".join(gpus)
