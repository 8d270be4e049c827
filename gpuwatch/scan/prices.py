"""The prices of a scan: given ones, those of an earlier scan, or list prices."""

from __future__ import annotations

from pathlib import Path

from gpuwatch.core.errors import UnreadableInput
from gpuwatch.core.model import Rejects
from gpuwatch.rates.card import parse_rates
from gpuwatch.rates.in_force import set_rates
from gpuwatch.rates.list_prices import list_prices
from gpuwatch.rates.repository import load_rates
from gpuwatch.state import State

RATES_BYTES_MAX = 10_000_000


def set_prices(state: State, given: bytes | None, name: str, actor: str, at_us: int) -> tuple[bool, list[str]]:
    """Sets the prices: those of a rates.csv, else those already there, else list prices.

    Returns whether they are list prices, and what was left out of the file. Raises UnreadableInput without a valid row.
    """
    notes: list[str] = []
    if given is not None:
        rejects = Rejects()
        rates = parse_rates(given, name, rejects)
        faults = [_fault(reason, *rejects.first[reason]) for reason in rejects.counts]
        if not rates:
            why = "; ".join(faults[:3]) or "it is empty"
            raise UnreadableInput(f"--rates {name}: no valid row; {why}")
        counts = rejects.counts.values()
        notes = [
            f"gpuwatch: --rates {name}: left out {count}: {why}" for count, why in zip(counts, faults, strict=True)
        ]
        set_rates(state, rates, actor, Path(name).name, at_us)
    elif not load_rates(state):
        set_rates(state, list_prices(), actor, "list prices", at_us)
    return set(load_rates(state)) == set(list_prices()), notes


def _fault(reason: str, file: str, line: int, text: str) -> str:
    """Why rows were left out, and the first of them."""
    return f"{reason} (line {line}: {text})" if text else reason
