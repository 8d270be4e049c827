"""Which GPUs a commitment covers, and when."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from gpuwatch.rates.card import BEGINNING_US, Rate
from gpuwatch.rates.matching import Covered, ranked

FOREVER_US = 2**62

Cover = dict[Rate, tuple[Covered, ...]]
"""The commitments that cover one GPU, each with its spans."""


@dataclass(frozen=True)
class FleetGpu:
    """A physical GPU that is in the fleet during [start_us, end_us); end None: it still is."""

    cluster: str
    gpu: str
    pool: str | None
    model: str
    start_us: int
    end_us: int | None = None
    spot: bool = False
    """It is known to be spot capacity."""

    @property
    def key(self) -> tuple[str, str]:
        """(cluster, UUID)."""
        return self.cluster, self.gpu


Wanting = tuple[FleetGpu, tuple[Rate, ...]]
"""A GPU, and the rates it may get, best first."""


def committed(rates: Iterable[Rate]) -> bool:
    """Whether any rate is for a number of GPUs."""
    return any(rate.quantity is not None for rate in rates)


def cover(rates: Sequence[Rate], gpus: Iterable[FleetGpu]) -> dict[tuple[str, str], Cover]:
    """Which GPUs of the whole fleet commitments to a number of GPUs cover. Uncovered GPUs are absent.

    At every instant the GPUs that are there take turns, in the order in which they were first seen, those seen at once by
    UUID; each takes the best rate of its precedence of which something is left. One that came later never takes the place
    of one that was there, and where a GPU leaves, the next takes its place at that instant.
    """
    wanting = _wanting(rates, gpus)
    turns = {edge for _, choices in wanting for rate in choices for edge in (rate.valid_from_us, rate.valid_to_us)}
    turns |= {gpu.end_us for gpu, _ in wanting}
    taken = _turns(wanting, {edge for edge in turns if edge is not None})
    found = ((gpu.key, _spans(turns_of)) for (gpu, _), turns_of in zip(wanting, taken, strict=True))
    return {key: spans for key, spans in found if spans}


def _wanting(rates: Sequence[Rate], gpus: Iterable[FleetGpu]) -> list[Wanting]:
    """The GPUs that a commitment may cover, in the order in which they take turns, each with its rates."""
    choices: dict[tuple[str, str | None, str, bool], tuple[Rate, ...]] = {}
    wanting: list[Wanting] = []
    for gpu in sorted(gpus, key=lambda one: (one.start_us, one.gpu, one.cluster)):
        scope = gpu.cluster, gpu.pool, gpu.model, gpu.spot
        if scope not in choices:
            choices[scope] = _until_last_commitment(
                ranked(rates, gpu.cluster, gpu.pool, gpu.model, None, spot=gpu.spot)
            )
        if choices[scope]:
            wanting.append((gpu, choices[scope]))
    return wanting


def _turns(wanting: Sequence[Wanting], restarts: set[int]) -> list[list[tuple[int, Rate | None]]]:
    """When each GPU changes its commitment. At the times of `restarts` all commitments are distributed again."""
    taken: list[list[tuple[int, Rate | None]]] = [[] for _ in wanting]
    left: dict[Rate, int] = {}
    come = 0
    for edge in sorted(restarts | {gpu.start_us for gpu, _ in wanting}):
        if edge in restarts:
            come, left = 0, {rate: rate.quantity or 0 for _, choices in wanting for rate in choices}
        while come < len(wanting) and wanting[come][0].start_us <= edge:
            gpu, choices = wanting[come]
            if gpu.end_us is None or edge < gpu.end_us:
                best = _take(choices, left, edge)
                if not taken[come] or taken[come][-1][1] is not best:
                    taken[come].append((edge, best))
            come += 1
    return taken


def _until_last_commitment(choices: Sequence[Rate]) -> tuple[Rate, ...]:
    """What stands behind the last commitment is never looked at; () where there is none."""
    last = max((place for place, rate in enumerate(choices) if rate.quantity is not None), default=-1)
    return tuple(choices[: last + 1])


def _take(choices: Sequence[Rate], left: dict[Rate, int], at_us: int) -> Rate | None:
    """The commitment that covers the next GPU; None where a better rate, or none, prices it."""
    for rate in choices:
        if not rate.valid_at(at_us):
            continue
        if rate.quantity is None:
            return None
        if left[rate]:
            left[rate] -= 1
            return rate
    return None


def _spans(turns: Sequence[tuple[int, Rate | None]]) -> Cover:
    """Turns as spans. A GPU did not exist before its first turn, so its first commitment counts from the beginning, so that
    GPUs that came one after another are alike.
    """
    found: dict[Rate, list[Covered]] = {}
    for place, (at_us, rate) in enumerate(turns):
        if rate is None:
            continue
        start_us = max(at_us if place else BEGINNING_US, rate.valid_from_us)
        next_us = turns[place + 1][0] if place + 1 < len(turns) else FOREVER_US
        end_us = min(next_us, FOREVER_US if rate.valid_to_us is None else rate.valid_to_us)
        found.setdefault(rate, []).append((start_us, None if end_us >= FOREVER_US else end_us))
    return {rate: tuple(spans) for rate, spans in found.items()}
