"""Utilisation of commitments: how much of the committed time was used."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import Any

from gpuwatch.core.clock import HOUR_US, SECOND_US, Window
from gpuwatch.core.money import CENT_PLACES, format_quantity, fraction_to_decimal
from gpuwatch.rates.card import Rate
from gpuwatch.rates.csv_table import plain
from gpuwatch.rates.fx import Fx, exchanged
from gpuwatch.rates.repository import load_rates
from gpuwatch.state import State
from gpuwatch.store.database import Store

COLUMNS = (
    "commitment_id", "gpu_model", "quantity", "committed_gpu_seconds", "used_gpu_seconds", "idle_gpu_seconds",
    "absent_gpu_seconds", "unused_gpu_seconds", "utilisation", "committed_cost", "used_cost", "unused_cost",
    "currency",
)  # fmt: skip


@dataclass(frozen=True)
class Usage:
    """One commitment in a window, in one currency. Times are GPU-microseconds weighted by share, amounts unrounded.

    committed = used + idle + absent: held, in the fleet but not held, and committed to beyond what the fleet has.
    """

    commitment_id: str
    gpu_models: tuple[str, ...]
    quantity: int | None
    """Committed GPUs at the end of the window, or when the commitment ended; None: all GPUs of its scope."""
    currency: str
    committed_us: Fraction
    used_us: Fraction
    idle_us: Fraction
    committed_cost: Fraction
    used_cost: Fraction

    @property
    def absent_us(self) -> Fraction:
        """Committed but not in the fleet: paid in addition to the charges."""
        return self.committed_us - self.used_us - self.idle_us

    @property
    def unused_us(self) -> Fraction:
        """Committed time that no run held."""
        return self.committed_us - self.used_us

    @property
    def utilisation(self) -> float | None:
        """Used share of the committed time, 0..1; None without committed time."""
        return float(self.used_us / self.committed_us) if self.committed_us else None


Price = tuple[str, str, str]
"""(commitment, price of a GPU-hour, currency)."""


def counted(store: Store, window: Window) -> Window | None:
    """The part of a window that the ledger covers: outside it, time is neither used nor unused. None where
    the ledger covers none of it.
    """
    start_us, end_us = store.sql("select min(start_us), max(end_us) from capacity")[0]
    if start_us is None or max(start_us, window.start_us) >= min(end_us, window.end_us):
        return None
    return Window(max(start_us, window.start_us), min(end_us, window.end_us))


def commitments(store: Store, state: State, window: Window) -> tuple[Usage, ...]:
    """Utilisation of each commitment of the rate card in the part of the window that `counted` returns, by name and currency.

    Prices and whom commitments cover are those of the last pricing.
    """
    rates = [rate for rate in load_rates(state) if rate.commitment is not None]
    known = counted(store, window) if rates else None
    if known is None:
        return ()
    rows = store.rows("rates/commitment", start_us=known.start_us, end_us=known.end_us)
    return usage(rates, Fx.read(state), rows, known)


def usage(rates: Sequence[Rate], fx: Fx, rows: Iterable[dict[str, Any]], window: Window) -> tuple[Usage, ...]:
    """Combines commitments with the covered time of the window (rows of rates/commitment)."""
    promised: dict[Price, Fraction] = {}
    for rate in rates:
        for price, time_us in _promised(rate, fx, window):
            promised[price] = promised.get(price, Fraction(0)) + time_us
    held: dict[Price, Fraction] = {}
    idle: dict[Price, Fraction] = {}
    for row in rows:
        price = row["commitment_id"], row["usd_per_gpu_hour"], row["currency"]
        of_kind = held if row["held"] else idle
        time = Fraction(row["device_us"] * row["share_num"], row["share_den"])
        of_kind[price] = of_kind.get(price, Fraction(0)) + time
    prices = promised.keys() | held.keys() | idle.keys()
    # Without a quantity, the GPUs in the fleet are the committed ones.
    for price in prices:
        there = held.get(price, Fraction(0)) + idle.get(price, Fraction(0))
        promised[price] = max(promised.get(price, Fraction(0)), there)
    return tuple(
        _usage(name, currency, rates, window, promised, held, idle)
        for name, currency in sorted({(name, currency) for name, _, currency in prices})
    )


def shown(one: Usage) -> dict[str, Any]:
    """A row for API and command line: seconds with six decimals, money to the cent, ratios 0..1."""
    return {
        "commitment_id": one.commitment_id,
        "gpu_model": ", ".join(one.gpu_models),
        "quantity": one.quantity,
        "committed_gpu_seconds": format_quantity(one.committed_us / SECOND_US),
        "used_gpu_seconds": format_quantity(one.used_us / SECOND_US),
        "idle_gpu_seconds": format_quantity(one.idle_us / SECOND_US),
        "absent_gpu_seconds": format_quantity(one.absent_us / SECOND_US),
        "unused_gpu_seconds": format_quantity(one.unused_us / SECOND_US),
        "utilisation": one.utilisation,
        **_cents(one),
        "currency": one.currency,
    }


def _cents(one: Usage) -> dict[str, str]:
    """Committed and used rounded; unused is the difference, so that the three add up."""
    committed, used = (fraction_to_decimal(cost, CENT_PLACES) for cost in (one.committed_cost, one.used_cost))
    return {"committed_cost": f"{committed:f}", "used_cost": f"{used:f}", "unused_cost": f"{committed - used:f}"}


def _promised(rate: Rate, fx: Fx, window: Window) -> Iterable[tuple[Price, Fraction]]:
    """GPU-microseconds that a rate commits to within the window, by price."""
    start_us = max(rate.valid_from_us, window.start_us)
    end_us = window.end_us if rate.valid_to_us is None else min(rate.valid_to_us, window.end_us)
    if start_us >= end_us or rate.quantity is None:
        return
    for from_us, until_us, by in fx.pieces(rate.currency, start_us, end_us):
        price = rate.usd_per_gpu_hour if by is None else exchanged(rate.usd_per_gpu_hour, by)
        currency = rate.currency if by is None else by.quote
        yield (
            (rate.commitment or "", plain(price), currency),
            Fraction(((until_us or end_us) - from_us) * rate.quantity),
        )


def _usage(
    name: str,
    currency: str,
    rates: Sequence[Rate],
    window: Window,
    promised: dict[Price, Fraction],
    held: dict[Price, Fraction],
    idle: dict[Price, Fraction],
) -> Usage:
    def total(of: dict[Price, Fraction], priced: bool) -> Fraction:
        return sum(
            (
                time * Fraction(price) / HOUR_US if priced else time
                for (commitment, price, of_currency), time in of.items()
                if (commitment, of_currency) == (name, currency)
            ),
            Fraction(0),
        )

    own = [rate for rate in rates if rate.commitment == name]
    last = [rate for rate in own if rate.valid_at(window.end_us - 1)] or own[-1:]
    counts = [rate.quantity for rate in last]
    return Usage(
        name,
        tuple(sorted({rate.gpu_model for rate in own})),
        None if None in counts else sum(count or 0 for count in counts),
        currency,
        total(promised, False),
        total(held, False),
        total(idle, False),
        total(promised, True),
        total(held, True),
    )
