"""Hours and money of the scorecard as text."""

from __future__ import annotations

from fractions import Fraction
from typing import Any

from gpuwatch.core.money import CENT_PLACES, format_quantity

HOUR_PLACES = 3
MANY_HOURS = 10


def money_text(amount: Any) -> str | None:
    return None if amount is None else format_quantity(Fraction(amount), CENT_PLACES)


def hours_phrase(hours: Fraction) -> str:
    """Hours in a sentence, rounded if there are many."""
    return f"{round(hours):,}" if hours >= MANY_HOURS else hours_text(hours)


def hours_text(hours: Fraction) -> str:
    return format_quantity(hours, HOUR_PLACES)
