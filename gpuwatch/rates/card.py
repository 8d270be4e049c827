"""Rate cards: what a GPU-hour costs, where, and when."""

from __future__ import annotations

import re
from bisect import bisect
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field, replace
from decimal import Decimal
from itertools import pairwise
from typing import Any

from gpuwatch.core.clock import rfc3339
from gpuwatch.core.errors import UsageError
from gpuwatch.core.model import Rejects
from gpuwatch.hardware import shares as hardware_shares
from gpuwatch.rates import node_split
from gpuwatch.rates.csv_table import amount, moment, plain, read_rows, whole_number
from gpuwatch.rates.models import ANY_MODEL, model_tokens, unknown_profile

PRICINGS = ("reserved", "owned", "spot", "on_demand")
"""Pricing models in order of precedence among equally specific rates: committed money is spent anyway."""

REQUIRED = ("gpu_model", "pricing", "usd_per_gpu_hour", "valid_from", "valid_to")
SCOPE = ("cluster", "pool", "mig_profile", "currency")
MORE = ("quantity", "commitment_id", "sku", "list_price", "contracted_price")
"""Rarely used columns."""
ASSUME_SPOT = "assume_spot"
OPTIONAL = (*SCOPE, *MORE, ASSUME_SPOT, *node_split.COLUMNS)
ANSWERS = {"": False, "no": False, "false": False, "yes": True, "true": True}

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
    assume_spot: bool = False
    """A spot rate that prices all GPUs of its scope, not only capacity that is known to be spot."""

    def __post_init__(self) -> None:
        for problem in _problems(self):
            raise UsageError(f"rate for {self.gpu_model!r}: {problem}") from ValueError(problem)

    def valid_at(self, at_us: int) -> bool:
        """Whether the rate is valid at an instant."""
        return self.valid_from_us <= at_us and (self.valid_to_us is None or at_us < self.valid_to_us)

    def prices(self, spot: bool) -> bool:
        """Whether it may price GPUs of its scope that are on spot capacity or not. Naming a pool says that it is spot."""
        return self.pricing != "spot" or spot or self.assume_spot or self.pool is not None

    @property
    def commitment(self) -> str | None:
        """The name of its commitment: its own id, or its scope if it has a quantity."""
        if self.commitment_id is not None or self.quantity is None:
            return self.commitment_id
        return "-".join(word for word in (self.gpu_model, self.cluster, self.pool, self.pricing) if word is not None)


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


def assuming_spot(rates: Iterable[Rate]) -> list[Rate]:
    """The same rates, with spot rates for all GPUs of their scope."""
    return [replace(rate, assume_spot=rate.pricing == "spot") for rate in rates]


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
        ASSUME_SPOT: rate.assume_spot,
        **node_split.shown(rate.node),
    }


def price_of(text: str | None, node: node_split.Node | None) -> Decimal:
    """The price of a GPU-hour: as written, or derived from a node's price. Raises ValueError."""
    return node.gpu_hour if node is not None and not text else amount(text or "", "usd_per_gpu_hour")


def missing_rate(cluster: str, pool: str | None, model: str, profile: str | None, at_us: int) -> str:
    """The sentence of an error row: no rate prices this device class at this instant."""
    scope = f"cluster {cluster!r}, pool {pool or '-'!r}, profile {profile or '-'!r}"
    return f"no rate for model {model!r}, {scope} at {rfc3339(at_us)}: add a line to rates.csv that covers it"


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
        assume_spot=_answer(row.get(ASSUME_SPOT) or ""),
        **{name: amount(text, name) for name in ("list_price", "contracted_price") if (text := row.get(name))},
    )
    if problem := unknown_profile(rate.gpu_model, rate.mig_profile):
        raise ValueError(problem)
    return rate


def _answer(text: str) -> bool:
    if (found := ANSWERS.get(text.strip().lower())) is None:
        raise ValueError(f"{ASSUME_SPOT} is not yes or no")
    return found


def _problems(rate: Rate) -> Iterator[str]:
    """Problems with a rate, worded without its values so that equal rejects are counted together."""
    for name in ("gpu_model", "cluster", "pool", "sku", "commitment_id"):
        if not (getattr(rate, name) or "").isprintable():
            yield f"{name} has a character that cannot be printed"
    for name in ("usd_per_gpu_hour", "list_price", "contracted_price"):
        price = getattr(rate, name)
        if price is not None and not (price.is_finite() and price >= 0):
            yield f"{name} is negative or not a number"
    profile, until_us = rate.mig_profile, rate.valid_to_us
    checks = (
        (bool(rate.gpu_model), "gpu_model is empty: name a model, or * for every model"),
        (
            rate.gpu_model in ("", ANY_MODEL) or bool(model_tokens(rate.gpu_model)),
            "gpu_model names no model: write one such as H100, or * for every model",
        ),
        (rate.pricing in PRICINGS, f"pricing is not one of {', '.join(sorted(PRICINGS))}"),
        (until_us is None or until_us > rate.valid_from_us, "valid_to is not after valid_from"),
        (
            profile is None or hardware_shares.profile_name(profile) == profile,
            "mig_profile is not a MIG profile such as 1g.10gb",
        ),
        *_commitment_checks(rate),
        (not rate.assume_spot or rate.pricing == "spot", f"{ASSUME_SPOT} is for pricing spot"),
        (
            rate.node is None or rate.node.gpu_hour == rate.usd_per_gpu_hour,
            "usd_per_gpu_hour is not what node_price gives: leave it empty",
        ),
        (_CURRENCY.fullmatch(rate.currency), "currency is not a three-letter ISO 4217 code such as USD"),
    )
    yield from (problem for valid, problem in checks if not valid)


def _commitment_checks(rate: Rate) -> Iterator[tuple[bool, str]]:
    """(whether a field of a commitment is valid, the problem if not)."""
    reserved, quantity = rate.pricing == "reserved", rate.quantity
    if quantity is not None:
        yield reserved, "quantity is for pricing reserved: a commitment to so many GPUs"
    yield rate.commitment_id is None or reserved, "commitment_id is for pricing reserved"
    if quantity is not None:
        yield 0 < quantity <= QUANTITY_MAX, f"quantity is not a number of GPUs from 1 to {QUANTITY_MAX}"
        yield rate.mig_profile is None, "quantity counts whole GPUs: leave mig_profile empty"
