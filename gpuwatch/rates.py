"""Rate cards: what a GPU-hour costs, where, and when."""

from __future__ import annotations

import csv
import io
import re
from bisect import bisect
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from decimal import Decimal
from functools import lru_cache
from heapq import heappop, heappush
from itertools import pairwise

from gpuwatch import mig
from gpuwatch.clock import parse_rfc3339, rfc3339
from gpuwatch.errors import UnreadableInput, UsageError
from gpuwatch.model import Rejects
from gpuwatch.money import EXACT_PLACES

PRICINGS = ("reserved", "owned", "spot", "on_demand")
"""Pricing models, the one that wins among equally specific rates first (domain: committed money is spent anyway)."""

REQUIRED = ("gpu_model", "pricing", "usd_per_gpu_hour", "valid_from", "valid_to")
OPTIONAL = ("cluster", "pool", "mig_profile", "currency")

MAX_ROWS = 100_000
"""Rows read from one file; the rest is refused and counted."""

BEGINNING_US = 0
"""Where a price history starts: the Unix epoch."""

MAX_NAMES = 4096
"""Distinct model names whose tokens are remembered."""

MAX_WHOLE_DIGITS = 26
"""Digits before the point of an amount: DECIMAL(38,12)."""

ANY_MODEL = "*"

OVERLAP = "validity overlaps an earlier rate of the same model, scope and pricing"

_AMOUNT = re.compile(r"[+-]?(\d+)(?:\.(\d*))?", re.ASCII)
_CURRENCY = re.compile(r"[A-Z]{3}")
_VENDOR_WORDS = frozenset({"nvidia", "tesla", "geforce"})


@dataclass(frozen=True)
class Rate:
    """The price of one whole GPU-hour during [valid_from_us, valid_to_us); None in a scope column is "any".

    `usd_per_gpu_hour` is always per whole GPU, in `currency`, also with a `mig_profile`: that names which slices the
    price is for, and a slice pays it times its share of the GPU.
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
    """Line of the file it came from, 0 where it did not come from one."""

    def __post_init__(self) -> None:
        for problem in _problems(self):
            raise UsageError(f"rate for {self.gpu_model!r}: {problem}") from ValueError(problem)

    def valid_at(self, at_us: int) -> bool:
        """Whether the instant lies in its validity."""
        return self.valid_from_us <= at_us and (self.valid_to_us is None or at_us < self.valid_to_us)


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
    """A rate in words for a message: model, scope, pricing, validity and line."""
    scope = [f"{n} {v}" for n in ("cluster", "pool", "mig_profile") if (v := getattr(rate, n)) is not None]
    until = "" if rate.valid_to_us is None else rfc3339(rate.valid_to_us)
    where = f" (line {rate.line})" if rate.line else ""
    return " ".join([rate.gpu_model, *scope, rate.pricing, f"{rfc3339(rate.valid_from_us)}..{until}"]) + where


def match_models(rates: Sequence[Rate], model_names: Iterable[str]) -> dict[str, tuple[Rate, ...]]:
    """For each model name the rates that may price it, best name match first, then in the order given."""
    return {name: tuple(rate for _, rate in _matches(rates, name)) for name in model_names}


def resolve(
    rates: Sequence[Rate], cluster: str, pool: str | None, model: str, profile: str | None, at_us: int
) -> Rate | None:
    """The rate of one device class at one instant; None where there is none, which is an error row, not zero.

    Most specific first (profile, then pool, then cluster, then how closely the model is named), then PRICINGS in order;
    among those the one that began last.
    """
    ranked = _ranked(rates, cluster, pool, model, profile)
    return next((rate for _, rate in ranked if rate.valid_at(at_us)), None)


def price_spans(
    rates: Sequence[Rate], cluster: str, pool: str | None, model: str, profile: str | None
) -> tuple[Span, ...]:
    """The price of one device class over all time: adjoining spans from BEGINNING_US, the last one without end."""
    ranked = [rate for _, rate in _ranked(rates, cluster, pool, model, profile)]
    starts = sorted((max(rate.valid_from_us, BEGINNING_US), place) for place, rate in enumerate(ranked))
    edges = {BEGINNING_US, *(start for start, _ in starts)}
    edges.update(r.valid_to_us for r in ranked if r.valid_to_us is not None and r.valid_to_us > BEGINNING_US)
    spans: list[Span] = []
    begun = 0
    running: list[int] = []  # heap of places in `ranked`, the winner on top; ended ones leave when they surface
    for edge in sorted(edges):
        while begun < len(starts) and starts[begun][0] <= edge:
            heappush(running, starts[begun][1])
            begun += 1
        while running and not ranked[running[0]].valid_at(edge):
            heappop(running)
        best = ranked[running[0]] if running else None
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


def read_rows(
    text: str | bytes, file: str, required: Sequence[str], optional: Sequence[str], rejects: Rejects
) -> Iterator[tuple[int, dict[str, str]]]:
    """(line number, row) of each line; a row has every required and present optional column, stripped of blanks.

    Columns may come in any order and case; missing cells at the end of a line are empty. A line with too many cells
    is refused; an unknown column is reported once and ignored. Raises UnreadableInput for text that is not UTF-8, is
    empty, or lacks a required column.
    """
    reader = csv.reader(io.StringIO(_decoded(text, file), newline=""), strict=True)
    header = _header(reader, file, required)
    wanted = {name: header.index(name) for name in (*required, *optional) if name in header}
    for name in header:
        if name not in wanted:
            known = ", ".join((*required, *optional))
            rejects.add(f"column {name!r} is not known and was ignored; known: {known}", file, 1, ",".join(header))
    for count in range(MAX_ROWS + 1):
        line = reader.line_num + 1
        try:
            cells = next(reader, None)
        except csv.Error as error:
            rejects.add(f"line is not CSV: {error}", file, line)
            continue
        if cells is None:
            return
        if count == MAX_ROWS:
            rejects.add(f"file has more than {MAX_ROWS} rows; the rest was not read", file, line)
            return
        if not any(cell.strip() for cell in cells):
            continue
        if any(cell.strip() for cell in cells[len(header) :]):
            rejects.add("line has more cells than the header has columns", file, line, ",".join(cells))
            continue
        cells += [""] * (len(header) - len(cells))
        yield line, {name: cells[column].strip() for name, column in wanted.items()}


@lru_cache(MAX_NAMES)
def model_tokens(name: str) -> frozenset[str]:
    """What a model name says: its words without the vendor's, SXM of any number alike, `80g` as `80gb`.

    HBM3 on H100 and H200 exists only on SXM boards, so it says SXM too.
    """
    words = set(re.findall(r"[a-z0-9]+", mig.base_model_name(name).lower())) - _VENDOR_WORDS
    words = {re.sub(r"^sxm\d+$", "sxm", re.sub(r"^(\d{2,})g$", r"\1gb", word)) for word in words}
    if words & {"h100", "h200"} and words & {"hbm3", "hbm3e"} and not words & {"nvl", "pcie"}:
        words.add("sxm")
    return frozenset(words)


def _driver_tokens(name: str) -> frozenset[str]:
    """The words of a device's model plus the memory that a full driver name implies (`NVIDIA H100 PCIe`: 80gb).

    `NVIDIA H200` without more is the SXM board; the NVL card says so.
    """
    words = model_tokens(name)
    if not re.match(r"nvidia\b", name.strip(), re.IGNORECASE):
        return words
    key = mig.model_key(name)
    implied = {key.rsplit("-", 1)[-1].lower()} if key else set()
    return words | implied | ({"sxm"} if words == {"h200"} else set())


def _matches(rates: Sequence[Rate], model: str) -> list[tuple[int, Rate]]:
    """(closeness, rate) of the rates that name `model`, closest first.

    Exact spelling; else every word of the rate is in the model's name, more words closer; else, where nothing names
    it so and the model's words are part of one rate model only (a gres type `h100`), that one; `*` last.
    """
    words, plain = _driver_tokens(model), model_tokens(model)
    found: list[tuple[int, Rate]] = []
    for rate in rates:
        tokens = model_tokens(rate.gpu_model)
        if rate.gpu_model.casefold() == model.strip().casefold():
            found.append((len(words) + 2, rate))
        elif tokens and tokens <= words:
            found.append((len(tokens) + 1, rate))
    if not found and plain:
        wider = {tokens for rate in rates if plain <= (tokens := model_tokens(rate.gpu_model))}
        found = [(1, rate) for rate in rates if len(wider) == 1 and model_tokens(rate.gpu_model) in wider]
    found += [(0, rate) for rate in rates if rate.gpu_model == ANY_MODEL]
    return sorted(found, key=lambda match: -match[0])


def _ranked(
    rates: Sequence[Rate], cluster: str, pool: str | None, model: str, profile: str | None
) -> list[tuple[tuple[object, ...], Rate]]:
    """The rates in whose scope the device class lies, the one that wins first."""
    wanted = _profile_or_text(profile)
    ranked: list[tuple[tuple[object, ...], Rate]] = []
    for closeness, rate in _matches(rates, model):
        if rate.cluster in (None, cluster) and rate.pool in (None, pool) and rate.mig_profile in (None, wanted):
            scope = (rate.mig_profile is None, rate.pool is None, rate.cluster is None, -closeness)
            tie = (PRICINGS.index(rate.pricing), -rate.valid_from_us, rate.gpu_model)
            ranked.append(((*scope, *tie), rate))
    return sorted(ranked, key=lambda entry: entry[0])


def _profile_or_text(profile: str | None) -> str | None:
    return (mig.profile_name(profile) or profile) if profile else None


def _scope(rate: Rate) -> tuple[object, ...]:
    name = model_tokens(rate.gpu_model) or rate.gpu_model
    return (name, rate.pricing, rate.cluster, rate.pool, rate.mig_profile)


def _overlap(a: Rate, b: Rate) -> bool:
    return (a.valid_to_us is None or b.valid_from_us < a.valid_to_us) and (
        b.valid_to_us is None or a.valid_from_us < b.valid_to_us
    )


def _rate(row: dict[str, str], line: int) -> Rate:
    """A row as a Rate; raises ValueError or UsageError with what is wrong."""
    valid_to = row.get("valid_to")
    profile = row.get("mig_profile") or None
    return Rate(
        row["gpu_model"],
        row["pricing"],
        _amount(row["usd_per_gpu_hour"]),
        _time(row["valid_from"], "valid_from"),
        _time(valid_to, "valid_to") if valid_to else None,
        row.get("cluster") or None,
        row.get("pool") or None,
        _profile_or_text(profile),
        row.get("currency") or "USD",
        line,
    )


def _amount(text: str) -> Decimal:
    """A plain decimal of DECIMAL(38,12): no exponent, thousands separator, currency sign, NaN or infinity."""
    match = _AMOUNT.fullmatch(text)
    if match is None:
        raise ValueError("usd_per_gpu_hour is not a plain decimal number such as 2.49")
    if len(match[1].lstrip("0")) > MAX_WHOLE_DIGITS or len((match[2] or "").rstrip("0")) > EXACT_PLACES:
        raise ValueError(f"usd_per_gpu_hour has more than {MAX_WHOLE_DIGITS} digits or {EXACT_PLACES} decimal places")
    return Decimal(text)


def _time(text: str, column: str) -> int:
    try:
        return parse_rfc3339(text)
    except (ValueError, OverflowError):
        raise ValueError(f"{column} is not an RFC 3339 time such as 2026-11-01T00:00:00Z") from None


def _problems(rate: Rate) -> Iterable[str]:
    """What a Rate may not be, in words without its values, so that refusals count together."""
    if not rate.gpu_model:
        yield "gpu_model is empty: name a model, or * for every model"
    elif rate.gpu_model != ANY_MODEL and not model_tokens(rate.gpu_model):
        yield "gpu_model names no model: write one such as H100, or * for every model"
    if rate.pricing not in PRICINGS:
        yield f"pricing is not one of {', '.join(sorted(PRICINGS))}"
    if not rate.usd_per_gpu_hour.is_finite() or rate.usd_per_gpu_hour < 0:
        yield "usd_per_gpu_hour is negative or not a number"
    if rate.valid_to_us is not None and rate.valid_to_us <= rate.valid_from_us:
        yield "valid_to is not after valid_from"
    if rate.mig_profile is not None and mig.profile_name(rate.mig_profile) != rate.mig_profile:
        yield "mig_profile is not a MIG profile such as 1g.10gb"
    if not _CURRENCY.fullmatch(rate.currency):
        yield "currency is not a three-letter ISO 4217 code such as USD"


def _decoded(text: str | bytes, file: str) -> str:
    if isinstance(text, str):
        return text.removeprefix("\ufeff")
    try:
        return text.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        raise UnreadableInput(f"{file}: byte {error.start} is not UTF-8; save the file as UTF-8") from error


def _header(reader: Iterator[list[str]], file: str, required: Sequence[str]) -> list[str]:
    """The first non-empty line's names in lower case."""
    try:
        cells = next((row for row in reader if any(cell.strip() for cell in row)), [])
    except csv.Error as error:
        raise UnreadableInput(f"{file}: its first line is not CSV ({error}); expected {','.join(required)}") from error
    header = [cell.strip().lower() for cell in cells]
    if missing := [name for name in required if name not in header]:
        raise UnreadableInput(
            f"{file}: no column {', '.join(missing)} in its first line; expected {','.join(required)}"
        )
    return header
