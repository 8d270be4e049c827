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
    return tuple(Gpus(group.gpu_type, None, 1, None, group.number) for group in requested_shares(text))


def requested_shares(text: str, factor: int = 1) -> tuple[Gpus, ...]:
    """The shares that a waiting job asks for by TRES or GRES, `factor` times: their number by kind, which is the profile.

    A total of TRES (`gres/shard=4,gres/shard:h100=4`) has those of a type too. Raises ValueError.
    """
    totals, typed = dict[str, int](), dict[tuple[str, str], int]()
    for item in split_outside(text, "()"):
        body, equals, count = item.partition("(")[0].partition("=")
        gres, *words = body.removeprefix("gres/").removeprefix("gres:").split(":")
        if gres not in SHARING_GRES:
            continue
        if not equals:
            count = words.pop() if words and words[-1].isdigit() else "1"
        number, kind, name = device_count(str(device_count(count) * factor)), f"gres/{gres}", ":".join(words)
        if name:
            typed[kind, name] = max(typed.get((kind, name), 0), number)
        else:
            totals[kind] = max(totals.get(kind, 0), number)
    found = [Gpus(name, kind, number) for (kind, name), number in sorted(typed.items())]
    for kind, total in sorted(totals.items()):
        found.append(Gpus(None, kind, total - sum(own for (of, _), own in typed.items() if of == kind)))
    return tuple(group for group in found if group.number > 0)


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
