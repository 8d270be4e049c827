"""The prices of a scan: given ones, those of an earlier scan, or list prices."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from gpuwatch.commands.shared import actor, file_content, print_stderr
from gpuwatch.core.errors import UnreadableInput

if TYPE_CHECKING:
    from gpuwatch.state import State

RATES_BYTES_MAX = 10_000_000


def set_prices(state: State, rates: Path | None, at_us: int) -> bool:
    """Sets the prices: the given ones, else those already there, else list prices. True for list prices."""
    from gpuwatch.core.model import Rejects
    from gpuwatch.rates.card import parse_rates
    from gpuwatch.rates.in_force import set_rates
    from gpuwatch.rates.list_prices import list_prices
    from gpuwatch.rates.repository import load_rates

    if rates is not None:
        rejects = Rejects()
        given = parse_rates(file_content(rates, RATES_BYTES_MAX), str(rates), rejects)
        if not given:
            raise UnreadableInput(
                f"--rates {rates}: no valid row; {'; '.join(list(rejects.counts)[:3]) or 'it is empty'}"
            )
        for reason, count in rejects.counts.items():
            print_stderr(f"gpuwatch: --rates {rates}: left out {count}: {reason}")
        set_rates(state, given, actor(), rates.name, at_us)
    elif not load_rates(state):
        set_rates(state, list_prices(), actor(), "list prices", at_us)
    return set(load_rates(state)) == set(list_prices())
