"""Rows of closed periods: frozen, written as text for the hash, and compared with a later ledger."""

from __future__ import annotations

import json
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from decimal import Decimal
from fractions import Fraction
from hashlib import sha256
from typing import Any

from gpuwatch.core.money import CENT_PLACES, EXACT_PLACES, largest_remainder, quotient_to_decimal, units_to_decimal

WORDS = ("team", "user", "queue", "namespace", "account", "job", "gpu_model", "mig_profile", "cluster", "pool")
"""Dimensions of a frozen row; slices are not among them: their ids are used again."""
COARSE = ("team", "cluster", "gpu_model", "mig_profile")
"""Dimensions of rows that were frozen before rows were fine, and of the summary of a period."""
KEY = (*WORDS, "kind", "cause", "origin")
"""The key of a row, together with its currency; `origin` is EXTERNAL for money that is not the cost of a device."""
EXTERNAL = "external"
FORMAT = "gpuwatch-period-1"
CENT_PICO = 10 ** (EXACT_PLACES - CENT_PLACES)
_ENCODER = json.JSONEncoder(sort_keys=True, separators=(",", ":"), ensure_ascii=False)

Row = Mapping[str, Any]
"""KEY and currency, `gpu_seconds` and `cost_exact` as decimal text of at most 12 places; `cost_exact` and `currency` are
None where no rate covered the time, and `error` then says which rate is missing."""
Key = tuple[str | None, ...]


@dataclass(frozen=True)
class Amounts:
    """GPU-seconds and money in 10^-12, so that sums are whole numbers; `cost` is None where there is no price."""

    gpu_seconds: int
    cost: int | None

    def plus(self, other: Amounts, sign: int = 1) -> Amounts:
        """The sum, or with `sign` -1 the difference; without a price on either side it has none."""
        known = [side for side in (self.cost, other.cost) if side is not None]
        cost = (self.cost or 0) + sign * (other.cost or 0) if known else None
        return Amounts(self.gpu_seconds + sign * other.gpu_seconds, cost)


NOTHING = Amounts(0, None)


def canonical(value: Any) -> str:
    """The canonical text of a value: JSON with sorted keys, without blanks, and with non-ASCII characters unescaped."""
    return _ENCODER.encode(value)


def digest_of(text: str) -> str:
    """The SHA-256 of a content, in hexadecimal."""
    return sha256(text.encode()).hexdigest()


def content_of(name: str, start: str, end: str, versions: Mapping[str, int], parts: Mapping[str, Iterable[Row]]) -> str:
    """The text that is hashed: what the period is, with which versions it was priced, and its rows, each list sorted by
    the text of its rows.
    """
    head = {"format": FORMAT, "period": name, "start": start, "end": end, "versions": dict(versions)}
    texts = {key: canonical(value) for key, value in head.items()}
    # Each row is written once, and sorted by its text.
    texts |= {part: f"[{','.join(sorted(canonical(dict(row)) for row in rows))}]" for part, rows in parts.items()}
    return f"{{{','.join(f'{canonical(key)}:{texts[key]}' for key in sorted(texts))}}}"


def pico(text: str) -> int:
    """Decimal text of at most 12 places in units of 10^-12."""
    whole, _, part = text.partition(".")
    if len(part) > EXACT_PLACES:
        raise ValueError(f"{text}: more than {EXACT_PLACES} places")
    return int(whole + part.ljust(EXACT_PLACES, "0"))


def text_of(units: int, places: int = EXACT_PLACES) -> str:
    """Units of 10^-12 as decimal text of so many places, half to even."""
    return f"{rounded(units, places):f}"


def rounded(units: int, places: int) -> Decimal:
    """Units of 10^-12 at fewer places, half to even."""
    return quotient_to_decimal(units, 10**EXACT_PLACES, places)


def by_key(rows: Iterable[Row]) -> dict[Key, Amounts]:
    """Amounts of rows by KEY and currency; rows that differ in nothing else add up."""
    found: dict[Key, Amounts] = {}
    for row in rows:
        cost = row["cost_exact"]
        amounts = Amounts(pico(row["gpu_seconds"]), None if cost is None else pico(cost))
        key = (*(row.get(name) for name in KEY), row["currency"])
        known = found.get(key)
        found[key] = amounts if known is None else known.plus(amounts)
    return found


def coarse(rows: Iterable[Row]) -> list[dict[str, Any]]:
    """Rows as they stand, of which only COARSE is known; `cost` in cents serves as the exact amount."""
    return [dict(row) | {"cost_exact": row["cost"]} for row in rows]


def differences(before: Mapping[Key, Amounts], after: Mapping[Key, Amounts]) -> dict[Key, Amounts]:
    """After minus before by key, where something differs, in order of the key."""
    found: dict[Key, Amounts] = {}
    for key in sorted(before.keys() | after.keys(), key=_place):
        delta = after.get(key, NOTHING).plus(before.get(key, NOTHING), -1)
        if delta.gpu_seconds or delta.cost:
            found[key] = delta
    return found


def lines(deltas: Mapping[Key, Amounts], cents_to_post: Mapping[str, int]) -> list[dict[str, Any]]:
    """Correction lines of differences. `cents_to_post`: by currency what closes the gap between the cents that were published
    so far and those of today; the lines add up to it where it is less than a cent from their exact sum, else to that.
    """
    groups: dict[str | None, list[Key]] = defaultdict(list)
    for key, delta in deltas.items():
        groups[None if delta.cost is None else key[-1]].append(key)
    cents: dict[Key, Decimal] = {}
    for currency, keys in groups.items():
        if currency is None:
            continue
        values = [Fraction(deltas[key].cost or 0, 10**EXACT_PLACES) for key in keys]
        target = Fraction(cents_to_post.get(currency, 0), 10**CENT_PLACES)
        near = abs(target - sum(values, Fraction(0))) * 10**CENT_PLACES < 1
        total = units_to_decimal(cents_to_post.get(currency, 0), CENT_PLACES) if near else None
        parts_in_cents = largest_remainder(values, CENT_PLACES, [canonical(key) for key in keys], total=total)
        cents |= dict(zip(keys, parts_in_cents, strict=True))
    return [_line(key, delta, cents.get(key)) for key, delta in deltas.items()]


def takes_back(posted: Iterable[Any]) -> list[dict[str, Any]]:
    """Lines that undo all posted corrections of a period, in exact amounts and in cents."""
    sums: dict[Key, Amounts] = {}
    cents: dict[Key, Amounts] = {}
    for one in posted:
        key = (*(one.words.get(name) for name in KEY), one.currency)
        exact = Amounts(_pico(one.gpu_seconds) or 0, _pico(one.cost_exact))
        sums[key] = sums.get(key, NOTHING).plus(exact)
        cents[key] = cents.get(key, NOTHING).plus(Amounts(0, _pico(one.cost)))
    out = []
    for key in sorted(sums, key=_place):
        delta, cost = NOTHING.plus(sums[key], -1), NOTHING.plus(cents[key], -1).cost
        if delta.gpu_seconds or delta.cost or cost:
            out.append(_line(key, delta, None if cost is None else rounded(cost, CENT_PLACES)))
    return out


def sums_of(posted: Iterable[Any]) -> dict[Key, Amounts]:
    """Posted corrections by key."""
    found: dict[Key, Amounts] = {}
    for one in posted:
        key = (*(one.words.get(name) for name in KEY), one.currency)
        found[key] = found.get(key, NOTHING).plus(Amounts(_pico(one.gpu_seconds) or 0, _pico(one.cost_exact)))
    return found


def cents_by_currency(amounts: Iterable[tuple[str | None, Decimal | str | None]]) -> dict[str, int]:
    """Cents of published amounts, in whole numbers."""
    found: dict[str, int] = defaultdict(int)
    for currency, cost in amounts:
        if currency is not None and cost is not None:
            found[currency] += pico(f"{cost:f}" if isinstance(cost, Decimal) else cost) // CENT_PICO
    return dict(found)


def summary(rows: Sequence[Row], published: Sequence[Row], by: Sequence[str] = COARSE) -> list[dict[str, Any]]:
    """Frozen rows by fewer dimensions, with cents: each team's rows add up to its published total."""
    totals = {_outer(row): row for row in published}
    groups: dict[Key, dict[Key, Amounts]] = defaultdict(dict)
    for row in rows:
        outer, inner = _outer(row), tuple(row[name] for name in by)
        cost = None if row["cost_exact"] is None else pico(row["cost_exact"])
        groups[outer][inner] = groups[outer].get(inner, NOTHING).plus(Amounts(pico(row["gpu_seconds"]), cost))
    out: list[dict[str, Any]] = []
    for outer, parts in groups.items():
        total = totals.get(outer)
        names = [canonical(inner) for inner in parts]
        money = [Fraction(part.cost or 0, 10**EXACT_PLACES) for part in parts.values()]
        parts_in_cents = largest_remainder(money, CENT_PLACES, names, total=_near(money, total, "cost", CENT_PLACES))
        time = [Fraction(part.gpu_seconds, 10**EXACT_PLACES) for part in parts.values()]
        spent = largest_remainder(time, 6, names, total=_near(time, total, "gpu_seconds", 6))
        _, kind, currency, _, cause = outer
        for (inner, part), cents, seconds in zip(parts.items(), parts_in_cents, spent, strict=True):
            known = {"cost": None if part.cost is None else f"{cents:f}", "gpu_seconds": f"{seconds:f}"}
            words = dict(zip(by, inner, strict=True)) | {"kind": kind, "cause": cause, "currency": currency}
            out.append(words | known)
    return sorted(out, key=canonical)


def _outer(row: Row) -> Key:
    """The key of a row by team; only external money keeps its cause."""
    origin = row.get("origin")
    return row["team"], row["kind"], row["currency"], origin, row.get("cause") if origin else None


def _near(values: Sequence[Fraction], row: Row | None, name: str, places: int) -> Decimal | None:
    """The published total of values, where it is one: less than a unit away."""
    if row is None or row[name] is None:
        return None
    total = Decimal(row[name])
    return total if abs(Fraction(total) - sum(values, Fraction(0))) * 10**places < 1 else None


def _line(key: Key, delta: Amounts, cents: Decimal | None) -> dict[str, Any]:
    return {
        "words": dict(zip(KEY, key[:-1], strict=True)),
        "currency": key[-1],
        "gpu_seconds": text_of(delta.gpu_seconds),
        "cost_exact": None if delta.cost is None else text_of(delta.cost),
        "cost": None if cents is None else f"{cents:f}",
    }


def _pico(amount: Decimal | None) -> int | None:
    return None if amount is None else pico(f"{amount:f}")


def _place(key: Key) -> tuple[tuple[bool, str], ...]:
    return tuple((word is not None, word or "") for word in key)
