"""Exact money: fractions become decimals once, when published, and totals are preserved."""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from decimal import MAX_EMAX, MAX_PREC, MIN_EMIN, Context, Decimal
from fractions import Fraction
from math import lcm

EXACT_PLACES = 12
"""Decimal places of unrounded amounts, as in the ledger's DECIMAL(38,12)."""

CENT_PLACES = 2

EXACT = Context(prec=MAX_PREC, Emax=MAX_EMAX, Emin=MIN_EMIN)
"""Moves the decimal point without rounding."""

Number = Fraction | Decimal | int


def fraction_to_decimal(value: Number, places: int = EXACT_PLACES) -> Decimal:
    """`value` rounded half to even to `places`, independent of the decimal context."""
    exact = Fraction(value)
    return quotient_to_decimal(exact.numerator, exact.denominator, places)


def quotient_to_decimal(numerator: int, denominator: int, places: int = EXACT_PLACES) -> Decimal:
    """`numerator` / `denominator` (> 0) rounded half to even to `places`: fraction_to_decimal without a Fraction."""
    units, rest = divmod(numerator * 10**places, denominator)
    return units_to_decimal(units + (2 * rest + units % 2 > denominator), places)


def units_to_decimal(units: int, places: int) -> Decimal:
    """`units` × 10^-places, without rounding and independent of the thread's decimal context."""
    return EXACT.scaleb(Decimal(units), -places)


def largest_remainder(
    values: Sequence[Number],
    places: int,
    keys: Sequence[str],
    total: Decimal | None = None,
) -> list[Decimal]:
    """Rounds each of `values` to `places` so that they add up to their rounded total; keeps the order.

    1. Truncate each value towards zero. 2. Each missing unit goes to one of the values with the largest truncated part
    (of the same sign); ties to the smaller key. So each result is within one unit of its value,
    and the order of the input does not matter. `total` is a total that was already published (a parent's row), at most
    one unit from the sum; without it the sum is rounded half to even. Pass unrounded values, so that amounts are only
    rounded once. Raises ValueError for different lengths, repeated keys, or a total that is too far off.
    """
    if len(keys) != len(values):
        raise ValueError(f"{len(values)} values, {len(keys)} keys: pass one of each")
    if len(set(keys)) != len(keys):
        raise ValueError("keys are not unique, so ties cannot be resolved deterministically")
    scaled, parts = _scaled(values, places)
    target = _target(Fraction(sum(scaled), parts), places, total)
    units = [value // parts if value >= 0 else -(-value // parts) for value in scaled]
    missing = target - sum(units)
    step = 1 if missing > 0 else -1
    cut = [(value - unit * parts) * step for value, unit in zip(scaled, units, strict=True)]
    candidates = [i for i, part in enumerate(cut) if part > 0]
    candidates.sort(key=lambda i: (-cut[i], keys[i]))
    for i in candidates[: abs(missing)]:
        units[i] += step
    return [units_to_decimal(unit, places) for unit in units]


def divided(amounts: Sequence[int], places: int, parts: Sequence[Hashable]) -> list[int]:
    """Amounts in units of 10^-EXACT_PLACES as units of 10^-places: the largest_remainder of each part, ties to the earlier."""
    found = [0] * len(amounts)
    for part in dict.fromkeys(parts):
        numbers = [number for number, one in enumerate(parts) if one == part]
        exact = [Fraction(amounts[number], 10**EXACT_PLACES) for number in numbers]
        rounded = largest_remainder(exact, places, [f"{number:09d}" for number in numbers])
        for number, value in zip(numbers, rounded, strict=True):
            found[number] = int(value.scaleb(places))
    return found


def _scaled(values: Sequence[Number], places: int) -> tuple[list[int], int]:
    """The values in units of 10^-places as numerators, and their common denominator: it avoids one Fraction per value."""
    ratios = [value.as_integer_ratio() for value in values]
    parts = lcm(*{denominator for _, denominator in ratios})
    return [numerator * (parts // denominator) * 10**places for numerator, denominator in ratios], parts


def _target(exact: Fraction, places: int, total: Decimal | None) -> int:
    """The units that the rounded values add up to: those of the published total, or of the rounded sum."""
    target = Fraction(round(exact)) if total is None else Fraction(total) * 10**places
    if target.denominator != 1 or abs(target - exact) >= 1:
        raise ValueError(f"total {total} is not within one unit at {places} places of the sum of the values")
    return int(target)


def format_quantity(value: Number, places: int = 6) -> str:
    """`value` as a plain decimal string with exactly `places` places: no exponent, no plus sign, no negative zero."""
    return f"{fraction_to_decimal(value, places):f}"
