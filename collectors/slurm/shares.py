"""What a job holds: whole GPUs, or shares of GPUs (gres shard and mps). Pure."""

from __future__ import annotations

import re
from functools import lru_cache

from gpuwatch.collectors.slurm.text import (
    CACHED_TEXTS,
    Gpus,
    device_count,
    gres_gpus,
    printed_indexes,
    split_outside,
    tres_gpus,
)

SHARES_LABEL = "gpuwatch.io/shares"
"""Label of a claim on shares of devices: how many of them it holds on its node."""
SHARING_GRES = frozenset({"shard", "mps"})
"""Gres that are shares of a GPU."""


@lru_cache(CACHED_TEXTS)
def tres_held(text: str) -> tuple[Gpus, ...]:
    """What a job holds by AllocTRES or TRES: its GPUs, or else its shares of one (`gres/shard=4`, `gres/mps:h100=50`).

    Slurm refuses jobs that ask for both. Raises ValueError.
    """
    if gpus := tres_gpus(text):
        return gpus
    total, typed = 0, dict[str, int]()
    for item in text.split(","):
        name, _, count = item.partition("=")
        gres, _, kind = name.removeprefix("gres/").partition(":")
        if not name.startswith("gres/") or gres not in SHARING_GRES:
            continue
        if kind:
            typed[kind] = max(typed.get(kind, 0), device_count(count))
        else:
            total = max(total, device_count(count))
    found = [Gpus(kind, None, 1, None, count) for kind, count in sorted(typed.items()) if count]
    rest = total - sum(typed.values())
    return (*found, Gpus(None, None, 1, None, rest)) if rest > 0 else tuple(found)


@lru_cache(CACHED_TEXTS)
def gres_held(text: str) -> tuple[Gpus, ...]:
    """What a job holds by its GRES: its GPUs, or else its shares of those of `shard:h100:4(IDX:1)` or `mps:50(0/100,50/100)`.

    Without indexes the shares are taken to be of one GPU, Slurm's default. Raises ValueError.
    """
    if gpus := gres_gpus(text):
        return gpus
    found = []
    for item in split_outside(text, "()"):
        body, _, note = item.partition("(")
        words = re.split("[:=]", body.removeprefix("gres/").removeprefix("gres:"))
        if words[0] not in SHARING_GRES:
            continue
        if len(words) == 1 or (len(words) == 2 and not words[1].isdigit()):
            words.append("1")
        if shares := device_count(words[-1]):
            indexes = _shared_indexes(note)
            number = indexes.count(",") + 1 if indexes else 1
            found.append(Gpus(":".join(words[1:-1]) or None, None, number, indexes, shares))
    return tuple(found)


def _shared_indexes(note: str) -> str | None:
    """The GPUs of shares: `IDX:0-1)` -> `0,1`, and `0/8,4/8)` (what is held of each GPU's shares) -> `1`."""
    numbers = printed_indexes(note)
    if not numbers:
        parts = [part.partition("/") for part in note.rstrip(")").split(",")]
        if all(held.isdigit() and all_.isdigit() for held, _, all_ in parts):
            numbers = [str(n) for n, (held, _, _) in enumerate(parts) if int(held)]
    return ",".join(numbers) or None
