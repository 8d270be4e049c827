"""CPUs and memory that Slurm's jobs and nodes have, by TRES and by `scontrol show node`. Pure."""

from __future__ import annotations

import re
from collections.abc import Mapping
from fractions import Fraction
from functools import lru_cache
from typing import Any

from gpuwatch.collectors.shared.json_fields import Object
from gpuwatch.collectors.slurm.json_values import count_of
from gpuwatch.collectors.slurm.text import CACHED_TEXTS

MILLI = 1000
MIB = 1 << 20
_AMOUNT = re.compile(r"([0-9]{1,15}(?:\.[0-9]{1,6})?)([KMGTP]?)")
_BYTES = {"K": 1 << 10, "": MIB, "M": MIB, "G": 1 << 30, "T": 1 << 40, "P": 1 << 50}
_CPUS = {"": 1, "K": 1_000, "M": 1_000_000}
_NODE_NUMBERS = {
    "CPUEfctv": "effective_cpus",
    "CPUTot": "cpus",
    "CPUAlloc": "alloc_cpus",
    "RealMemory": "real_memory",
    "AllocMem": "alloc_memory",
    "MemSpecLimit": "specialized_memory",
}
"""CPUs and memory of a node: what `scontrol` calls them, and JSON."""


@lru_cache(CACHED_TEXTS)
def _tres_room(text: str) -> tuple[int | None, int | None]:
    """Thousandths of CPUs and bytes of memory of `cpu=32,mem=62.50G`, None for what it does not have or cannot be read."""
    found = dict(item.split("=", 1) for item in text.split(",") if "=" in item)
    cpus, memory = (_AMOUNT.fullmatch(found.get(name, "").strip()) for name in ("cpu", "mem"))
    return (
        int(Fraction(cpus[1]) * MILLI * _CPUS[cpus[2]]) if cpus and cpus[2] in _CPUS else None,
        int(Fraction(memory[1]) * _BYTES[memory[2]]) if memory else None,
    )


def room_columns(tres: str | None, nodes: int = 1) -> dict[str, int]:
    """The columns of CPUs and memory of each of a job's `nodes`, spread evenly and rounded down; those that are known."""
    cpus, memory = _tres_room(tres or "")
    known = {"cpu_milli": cpus, "memory_bytes": memory}
    return {name: value // max(nodes, 1) for name, value in known.items() if value is not None}


def node_columns(fields: Mapping[str, str]) -> dict[str, Any]:
    """The columns of CPUs and memory of a node, by `scontrol show node`; those that are known."""
    special = _number(fields, "MemSpecLimit") or 0
    cpus = _number(fields, "CPUEfctv") or _number(fields, "CPUTot")
    memory = _number(fields, "RealMemory")
    used_cpus, used_memory = _number(fields, "CPUAlloc"), _number(fields, "AllocMem")
    known = {
        "cpu_milli": cpus and cpus * MILLI,
        "memory_bytes": memory and max(memory - special, 0) * MIB,
        "cpu_milli_used": None if used_cpus is None else used_cpus * MILLI,
        "memory_bytes_used": None if used_memory is None else used_memory * MIB,
    }
    return {name: value for name, value in known.items() if value is not None}


def node_numbers(node: Object) -> dict[str, str]:
    """The fields of node_columns that a node has in JSON. Raises Malformed."""
    found = {field: count_of(node, key) for field, key in _NODE_NUMBERS.items()}
    return {field: str(number) for field, number in found.items() if number is not None}


def _number(fields: Mapping[str, str], key: str) -> int | None:
    text = (fields.get(key, "").split() or [""])[0]
    return int(text) if text.isascii() and text.isdigit() and len(text) <= 12 else None
