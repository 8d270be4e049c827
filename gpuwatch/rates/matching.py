"""Which rate prices a device: by name of its model, by scope, and over time."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from heapq import heappop, heappush

from gpuwatch.rates.card import BEGINNING_US, PRICINGS, Rate
from gpuwatch.rates.models import ANY_MODEL, device_tokens, model_tokens, names_of_profile

Covered = tuple[int, int | None]
"""(start_us, end_us or None for open) in which a commitment covers a device."""
NOTHING_COVERED: Mapping[Rate, Sequence[Covered]] = {}
Span = tuple[int, int | None, Rate | None]
"""(start_us, end_us or None for ever, the rate or None where there is none)."""


def match_models(rates: Sequence[Rate], model_names: Iterable[str]) -> dict[str, tuple[Rate, ...]]:
    """For each model name the rates that may price it, best name match first, then in the order given."""
    return {name: tuple(rate for _, rate in _matches(rates, name)) for name in model_names}


def ranked(
    rates: Sequence[Rate], cluster: str, pool: str | None, model: str, profile: str | None, *, spot: bool = False
) -> tuple[Rate, ...]:
    """The rates whose scope includes a device class, in order of precedence. `spot`: it is known to be spot capacity.

    Most specific first (profile, then pool, then cluster, then how closely the model is named), then PRICINGS in order;
    among those commitments to a number of GPUs, the oldest first, then the one that began last.
    """
    wanted = names_of_profile(model, profile)
    found: list[tuple[tuple[object, ...], Rate]] = []
    for closeness, rate in _matches(rates, model):
        in_scope = rate.cluster in (None, cluster) and rate.pool in (None, pool) and rate.mig_profile in wanted
        if in_scope and rate.prices(spot):
            scope = (wanted.index(rate.mig_profile), rate.pool is None, rate.cluster is None, -closeness)
            # A GPU keeps its commitment when another one begins, so the oldest commitment to a number of GPUs comes first.
            began = (1, -rate.valid_from_us) if rate.quantity is None else (0, rate.valid_from_us)
            tie = (PRICINGS.index(rate.pricing), *began, rate.gpu_model, rate.commitment or "")
            found.append(((*scope, *tie), rate))
    return tuple(rate for _, rate in sorted(found, key=lambda entry: entry[0]))


def resolve(
    rates: Sequence[Rate],
    cluster: str,
    pool: str | None,
    model: str,
    profile: str | None,
    at_us: int,
    *,
    spot: bool = False,
) -> Rate | None:
    """The rate of one device class at one instant; None where there is none, which is an error row, not zero.

    Commitments to a number of GPUs are left out: their coverage depends on the fleet (rates/coverage.py).
    """
    found = (rate for rate in ranked(rates, cluster, pool, model, profile, spot=spot) if rate.quantity is None)
    return next((rate for rate in found if rate.valid_at(at_us)), None)


def price_spans(
    rates: Sequence[Rate],
    cluster: str,
    pool: str | None,
    model: str,
    profile: str | None,
    covered: Mapping[Rate, Sequence[Covered]] = NOTHING_COVERED,
    *,
    spot: bool = False,
) -> tuple[Span, ...]:
    """The price of one device class over all time: adjoining spans from BEGINNING_US, the last one without end.

    A rate with a quantity counts only while it covers these devices: in its spans of `covered`.
    """
    entries: list[Span] = []
    for rate in ranked(rates, cluster, pool, model, profile, spot=spot):
        spans = ((rate.valid_from_us, rate.valid_to_us),) if rate.quantity is None else covered.get(rate, ())
        entries += [(start_us, end_us, rate) for start_us, end_us in spans]
    starts = sorted((max(start, BEGINNING_US), place) for place, (start, _, _) in enumerate(entries))
    edges = {BEGINNING_US, *(start for start, _ in starts)}
    edges.update(end for _, end, _ in entries if end is not None and end > BEGINNING_US)
    return _adjoining(entries, starts, sorted(edges))


def _adjoining(entries: Sequence[Span], starts: Sequence[tuple[int, int]], edges: Sequence[int]) -> tuple[Span, ...]:
    """The best entry between each two edges; `starts` are (start, place in `entries`), and a lower place is better."""
    running: list[int] = []  # a heap of places; ended entries are dropped when they reach the top
    spans: list[Span] = []
    begun = 0
    for edge in edges:
        while begun < len(starts) and starts[begun][0] <= edge:
            heappush(running, starts[begun][1])
            begun += 1
        while running and (end := entries[running[0]][1]) is not None and end <= edge:
            heappop(running)
        best = entries[running[0]][2] if running else None
        if spans and spans[-1][2] is best:
            continue
        if spans:
            spans[-1] = (spans[-1][0], edge, spans[-1][2])
        spans.append((edge, None, best))
    return tuple(spans)


def _matches(rates: Sequence[Rate], model: str) -> list[tuple[int, Rate]]:
    """(closeness, rate) of the rates that name `model`, closest first.

    Exact spelling; else every word of the rate is in the model's name, more words closer; else, where nothing names
    it so and the model's words are part of one rate model only (a gres type `h100`), that one; `*` last.
    """
    words, named = device_tokens(model), model_tokens(model)
    found: list[tuple[int, Rate]] = []
    for rate in rates:
        tokens = model_tokens(rate.gpu_model)
        if rate.gpu_model.casefold() == model.strip().casefold():
            found.append((len(words) + 2, rate))
        elif tokens and tokens <= words:
            found.append((len(tokens) + 1, rate))
    if not found and named:
        wider = {tokens for rate in rates if named <= (tokens := model_tokens(rate.gpu_model))}
        found = [(1, rate) for rate in rates if len(wider) == 1 and model_tokens(rate.gpu_model) in wider]
    found += [(0, rate) for rate in rates if rate.gpu_model == ANY_MODEL]
    return sorted(found, key=lambda match: -match[0])
