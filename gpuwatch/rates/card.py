"""Rate cards: what a GPU-hour costs, where, and when."""

from __future__ import annotations

import re
from bisect import bisect
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from decimal import Decimal
from heapq import heappop, heappush
from itertools import pairwise
from typing import Any

from gpuwatch.core.clock import rfc3339
from gpuwatch.core.errors import UsageError
from gpuwatch.core.model import Rejects
from gpuwatch.hardware import shares as hardware_shares
from gpuwatch.rates import node_split
from gpuwatch.rates.csv_table import amount, moment, plain, read_rows, whole_number
from gpuwatch.rates.models import ANY_MODEL, device_tokens, model_tokens, names_of_profile, unknown_profile

__all__ = ["ANY_MODEL", "PRICINGS", "Rate", "check_rates", "describe", "match_models", "missing_rate", "model_tokens"]
__all__ += ["parse_rates", "price_spans", "ranked", "read_rows", "resolve"]

PRICINGS = ("reserved", "owned", "spot", "on_demand")
"""Pricing models in order of precedence among equally specific rates: committed money is spent anyway."""

REQUIRED = ("gpu_model", "pricing", "usd_per_gpu_hour", "valid_from", "valid_to")
SCOPE = ("cluster", "pool", "mig_profile", "currency")
MORE = ("quantity", "commitment_id", "sku", "list_price", "contracted_price")
"""Rarely used columns."""
OPTIONAL = (*SCOPE, *MORE, *node_split.COLUMNS)

BEGINNING_US = 0
"""Where a price history starts: the Unix epoch."""

QUANTITY_MAX = 10_000_000
"""GPUs of one commitment."""

OVERLAP = "validity overlaps an earlier rate of the same model, scope and pricing"

_CURRENCY = re.compile(r"[A-Z]{3}")


@dataclass(frozen=True)
class Rate:
    """The price of one whole GPU-hour during [valid_from_us, valid_to_us); None in a scope column is "any".

    `usd_per_gpu_hour` is always per whole GPU, in `currency`, even with a `mig_profile`: the profile selects the slices that
    the price is for, and a slice pays the price times its share of the GPU.
    """

    gpu_model: str
    pricing: str
    usd_per_gpu_hour: Decimal
    valid_from_us: int
    valid_to_us: int | None = None
    cluster: str | None = None
    pool: str | None = None
    mig_profile: str | None = None
    currency: str = "USD"
    line: int = field(default=0, compare=False)
    """Line of the file it came from, 0 if it did not come from one."""
    quantity: int | None = None
    """Committed GPUs; None covers all GPUs of the scope."""
    commitment_id: str | None = None
    sku: str | None = None
    list_price: Decimal | None = None
    contracted_price: Decimal | None = None
    """Per whole GPU-hour in `currency`, next to the effective price; None: the same."""
    node: node_split.Node | None = None
    """The node whose hourly price `usd_per_gpu_hour` is a part of."""

    def __post_init__(self) -> None:
        for problem in _problems(self):
            raise UsageError(f"rate for {self.gpu_model!r}: {problem}") from ValueError(problem)

    def valid_at(self, at_us: int) -> bool:
        """Whether the rate is valid at an instant."""
        return self.valid_from_us <= at_us and (self.valid_to_us is None or at_us < self.valid_to_us)

    @property
    def commitment(self) -> str | None:
        """The name of its commitment: its own id, or its scope if it has a quantity."""
        if self.commitment_id is not None or self.quantity is None:
            return self.commitment_id
        return "-".join(word for word in (self.gpu_model, self.cluster, self.pool, self.pricing) if word is not None)


Covered = tuple[int, int | None]
"""(start_us, end_us or None for open) in which a commitment covers a device."""
NOTHING_COVERED: Mapping[Rate, Sequence[Covered]] = {}
Span = tuple[int, int | None, Rate | None]
"""(start_us, end_us or None for ever, the rate or None where there is none)."""


def parse_rates(text: str | bytes, file: str, rejects: Rejects) -> tuple[Rate, ...]:
    """The rates of a rates.csv, in file order.

    A bad line goes to `rejects` with its number and the rest is kept; so does a line whose validity overlaps an earlier
    one of the same model, scope and pricing (the text names both lines). Raises UnreadableInput where the file is not
    CSV with the required columns.
    """
    kept: list[Rate] = []
    by_scope: dict[tuple[object, ...], list[Rate]] = {}
    for line, row in read_rows(text, file, REQUIRED, OPTIONAL, rejects):
        shown = ",".join(row.values())
        try:
            rate = _rate(row, line)
        except (ValueError, UsageError) as error:
            rejects.add(str(error.__cause__ or error), file, line, shown)
            continue
        peers = by_scope.setdefault(_scope(rate), [])
        at = bisect(peers, rate.valid_from_us, key=lambda peer: peer.valid_from_us)
        other = next((peer for peer in peers[max(at - 1, 0) : at + 1] if _overlap(peer, rate)), None)
        if other is not None:
            rejects.add(OVERLAP, file, line, f"line {line} overlaps line {other.line}: {shown}")
            continue
        peers.insert(at, rate)
        kept.append(rate)
    return tuple(kept)


def check_rates(rates: Iterable[Rate]) -> None:
    """Raises UsageError naming two rates of equal scope and pricing that are valid at once."""
    by_scope: dict[tuple[object, ...], list[Rate]] = {}
    for rate in rates:
        by_scope.setdefault(_scope(rate), []).append(rate)
    for peers in by_scope.values():
        peers.sort(key=lambda rate: rate.valid_from_us)
        for one, next_one in pairwise(peers):
            if _overlap(one, next_one):
                raise UsageError(f"rates: {describe(one)} and {describe(next_one)} are valid at once; end the first")


def describe(rate: Rate) -> str:
    """Describes a rate for a message: model, scope, pricing, validity and line."""
    scope = [f"{n} {v}" for n in ("cluster", "pool", "mig_profile") if (v := getattr(rate, n)) is not None]
    until = "" if rate.valid_to_us is None else rfc3339(rate.valid_to_us)
    where = f" (line {rate.line})" if rate.line else ""
    by = "" if rate.node is None else f", {rate.node}"
    return " ".join([rate.gpu_model, *scope, rate.pricing, f"{rfc3339(rate.valid_from_us)}..{until}"]) + by + where


def shown(rate: Rate) -> dict[str, Any]:
    """A rate as texts, for API and command line."""
    more = {name: getattr(rate, name) for name in MORE}
    return {
        "gpu_model": rate.gpu_model,
        "pricing": rate.pricing,
        "usd_per_gpu_hour": plain(rate.usd_per_gpu_hour),
        "valid_from": rfc3339(rate.valid_from_us),
        "valid_to": None if rate.valid_to_us is None else rfc3339(rate.valid_to_us),
        **{name: getattr(rate, name) for name in SCOPE},
        **{name: plain(value) if isinstance(value, Decimal) else value for name, value in more.items()},
        **node_split.shown(rate.node),
    }


def price_of(text: str | None, node: node_split.Node | None) -> Decimal:
    """The price of a GPU-hour: as written, or derived from a node's price. Raises ValueError."""
    return node.gpu_hour if node is not None and not text else amount(text or "", "usd_per_gpu_hour")


def match_models(rates: Sequence[Rate], model_names: Iterable[str]) -> dict[str, tuple[Rate, ...]]:
    """For each model name the rates that may price it, best name match first, then in the order given."""
    return {name: tuple(rate for _, rate in _matches(rates, name)) for name in model_names}


def ranked(rates: Sequence[Rate], cluster: str, pool: str | None, model: str, profile: str | None) -> tuple[Rate, ...]:
    """The rates whose scope includes a device class, in order of precedence.

    Most specific first (profile, then pool, then cluster, then how closely the model is named), then PRICINGS in order;
    among those commitments to a number of GPUs, the oldest first, then the one that began last.
    """
    wanted = names_of_profile(model, profile)
    found: list[tuple[tuple[object, ...], Rate]] = []
    for closeness, rate in _matches(rates, model):
        if rate.cluster in (None, cluster) and rate.pool in (None, pool) and rate.mig_profile in wanted:
            scope = (wanted.index(rate.mig_profile), rate.pool is None, rate.cluster is None, -closeness)
            # A GPU keeps its commitment when another one begins, so the oldest commitment to a number of GPUs comes first.
            began = (1, -rate.valid_from_us) if rate.quantity is None else (0, rate.valid_from_us)
            tie = (PRICINGS.index(rate.pricing), *began, rate.gpu_model, rate.commitment or "")
            found.append(((*scope, *tie), rate))
    return tuple(rate for _, rate in sorted(found, key=lambda entry: entry[0]))


def resolve(
    rates: Sequence[Rate], cluster: str, pool: str | None, model: str, profile: str | None, at_us: int
) -> Rate | None:
    """The rate of one device class at one instant; None where there is none, which is an error row, not zero.

    Commitments to a number of GPUs are left out: their coverage depends on the fleet (rates/coverage.py).
    """
    found = (rate for rate in ranked(rates, cluster, pool, model, profile) if rate.quantity is None)
    return next((rate for rate in found if rate.valid_at(at_us)), None)


def price_spans(
    rates: Sequence[Rate],
    cluster: str,
    pool: str | None,
    model: str,
    profile: str | None,
    covered: Mapping[Rate, Sequence[Covered]] = NOTHING_COVERED,
) -> tuple[Span, ...]:
    """The price of one device class over all time: adjoining spans from BEGINNING_US, the last one without end.

    A rate with a quantity counts only while it covers these devices: in its spans of `covered`.
    """
    running: list[
        int
    ] = []  # heap of indices of `entries`, best first; ended entries are dropped when they reach the top
    entries: list[tuple[int, int | None, Rate]] = []
    for rate in ranked(rates, cluster, pool, model, profile):
        if rate.quantity is None:
            entries.append((rate.valid_from_us, rate.valid_to_us, rate))
        else:
            entries += [(start, end, rate) for start, end in covered.get(rate, ())]
    starts = sorted((max(start, BEGINNING_US), place) for place, (start, _, _) in enumerate(entries))
    edges = {BEGINNING_US, *(start for start, _ in starts)}
    edges.update(end for _, end, _ in entries if end is not None and end > BEGINNING_US)
    spans: list[Span] = []
    begun = 0
    for edge in sorted(edges):
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


def missing_rate(cluster: str, pool: str | None, model: str, profile: str | None, at_us: int) -> str:
    """The sentence of an error row: no rate prices this device class at this instant."""
    scope = f"cluster {cluster!r}, pool {pool or '-'!r}, profile {profile or '-'!r}"
    return f"no rate for model {model!r}, {scope} at {rfc3339(at_us)}: add a line to rates.csv that covers it"


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


def _profile_or_text(profile: str | None) -> str | None:
    return (hardware_shares.profile_name(profile) or profile) if profile else None


def _scope(rate: Rate) -> tuple[object, ...]:
    name = model_tokens(rate.gpu_model) or rate.gpu_model
    return (name, rate.pricing, rate.cluster, rate.pool, rate.mig_profile, rate.commitment_id)


def _overlap(a: Rate, b: Rate) -> bool:
    return (a.valid_to_us is None or b.valid_from_us < a.valid_to_us) and (
        b.valid_to_us is None or a.valid_from_us < b.valid_to_us
    )


def _rate(row: dict[str, str], line: int) -> Rate:
    """A row as a Rate; raises ValueError or UsageError with what is wrong."""
    valid_to, currency, quantity = row.get("valid_to"), row.get("currency"), row.get("quantity")
    profile = row.get("mig_profile") or None
    if currency == "":
        raise ValueError("currency is empty: write a three-letter code such as USD, or leave the column out for USD")
    node = node_split.node_of(row)
    rate = Rate(
        row["gpu_model"],
        row["pricing"],
        price_of(row["usd_per_gpu_hour"], node),
        moment(row["valid_from"], "valid_from"),
        moment(valid_to, "valid_to") if valid_to else None,
        row.get("cluster") or None,
        row.get("pool") or None,
        _profile_or_text(profile),
        currency or "USD",
        line,
        quantity=whole_number(quantity, "quantity") if quantity else None,
        commitment_id=row.get("commitment_id") or None,
        sku=row.get("sku") or None,
        node=node,
        **{name: amount(text, name) for name in ("list_price", "contracted_price") if (text := row.get(name))},
    )
    if problem := unknown_profile(rate.gpu_model, rate.mig_profile):
        raise ValueError(problem)
    return rate


def _problems(rate: Rate) -> Iterable[str]:
    """Problems with a rate, worded without its values so that equal rejects are counted together."""
    if not rate.gpu_model:
        yield "gpu_model is empty: name a model, or * for every model"
    elif rate.gpu_model != ANY_MODEL and not model_tokens(rate.gpu_model):
        yield "gpu_model names no model: write one such as H100, or * for every model"
    for name in ("gpu_model", "cluster", "pool", "sku", "commitment_id"):
        if not (getattr(rate, name) or "").isprintable():
            yield f"{name} has a character that cannot be printed"
    if rate.pricing not in PRICINGS:
        yield f"pricing is not one of {', '.join(sorted(PRICINGS))}"
    if not rate.usd_per_gpu_hour.is_finite() or rate.usd_per_gpu_hour < 0:
        yield "usd_per_gpu_hour is negative or not a number"
    if rate.valid_to_us is not None and rate.valid_to_us <= rate.valid_from_us:
        yield "valid_to is not after valid_from"
    if rate.mig_profile is not None and hardware_shares.profile_name(rate.mig_profile) != rate.mig_profile:
        yield "mig_profile is not a MIG profile such as 1g.10gb"
    yield from _commitment_problems(rate)
    for name in ("list_price", "contracted_price"):
        price = getattr(rate, name)
        if price is not None and (not price.is_finite() or price < 0):
            yield f"{name} is negative or not a number"
    if rate.node is not None and rate.node.gpu_hour != rate.usd_per_gpu_hour:
        yield "usd_per_gpu_hour is not what node_price gives: leave it empty"
    if not _CURRENCY.fullmatch(rate.currency):
        yield "currency is not a three-letter ISO 4217 code such as USD"


def _commitment_problems(rate: Rate) -> Iterable[str]:
    """Problems with the fields of a commitment."""
    if rate.quantity is not None and rate.pricing != "reserved":
        yield "quantity is for pricing reserved: a commitment to so many GPUs"
    if rate.commitment_id is not None and rate.pricing != "reserved":
        yield "commitment_id is for pricing reserved"
    if rate.quantity is not None and not 0 < rate.quantity <= QUANTITY_MAX:
        yield f"quantity is not a number of GPUs from 1 to {QUANTITY_MAX}"
    if rate.quantity is not None and rate.mig_profile is not None:
        yield "quantity counts whole GPUs: leave mig_profile empty"
