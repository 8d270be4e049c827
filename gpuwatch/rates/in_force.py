"""The rates in force: those of the rate card, of owned hardware, and of spot price histories."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from itertools import chain

from gpuwatch.rates import fx, owned
from gpuwatch.rates import spot as rates_spot
from gpuwatch.rates.card import Rate, check_rates
from gpuwatch.rates.owned import Owned
from gpuwatch.rates.repository import RATES, load_rates, replace_rates
from gpuwatch.rates.spot import SpotPrice
from gpuwatch.state import State
from gpuwatch.state.versioned_lists import VersionedLists

CARDS = (RATES, owned.CARD, rates_spot.CARD)
"""VersionedLists that make rates. Where two say the same of the same GPUs, the first card's decides."""


def by_card(state: State) -> dict[str, tuple[Rate, ...]]:
    """The rates in force by the card that they come from."""
    return {
        RATES: load_rates(state),
        owned.CARD: tuple(one.rate() for one in owned_hardware(state)),
        rates_spot.CARD: rates_spot.spot_rates(spot_prices(state)),
    }


def in_force(state: State) -> tuple[Rate, ...]:
    """Every rate in force."""
    return tuple(chain.from_iterable(by_card(state).values()))


def versions(state: State) -> dict[str, int]:
    """The versions of every card that prices follow from, but the ownership rules'."""
    return {kind: state.card_version(kind) for kind in (*CARDS, fx.CARD)}


def owned_hardware(state: State) -> tuple[Owned, ...]:
    """The hardware that is owned, as it was set."""
    return tuple(owned.owned_of(row, 0) for row in VersionedLists(state).rows(owned.CARD))


def spot_prices(state: State) -> tuple[SpotPrice, ...]:
    """The spot prices that were imported."""
    return tuple(rates_spot.from_row(row) for row in VersionedLists(state).rows(rates_spot.CARD))


def set_rates(state: State, rates: Sequence[Rate], actor: str, source: str, at_us: int) -> bool:
    """Replaces the rate card. Raises UsageError naming two rates, of any card, that are valid at once."""
    kept = by_card(state)
    check_rates(chain(rates, *(kept[card] for card in CARDS[1:])))
    return replace_rates(state, rates, actor, source, at_us)


def set_owned(state: State, hardware: Sequence[Owned], actor: str, source: str, at_us: int) -> bool:
    """Replaces the owned hardware. Raises UsageError as set_rates does, and for a power that is still to be measured."""
    made = [one.rate() for one in hardware]
    check_rates(chain(made, (rate for rate in load_rates(state) if rate.pricing == owned.CARD)))
    return VersionedLists(state).replace(owned.CARD, [owned.shown(one) for one in hardware], actor, source, at_us)


def add_spot(state: State, new: Iterable[SpotPrice], actor: str, source: str, at_us: int) -> bool:
    """Adds spot prices to those that are known. True if that changed them. Raises UsageError: see rate_spot.merged."""
    every = rates_spot.merged(spot_prices(state), new)
    check_rates(chain(rates_spot.spot_rates(every), (rate for rate in load_rates(state) if rate.pricing == "spot")))
    return VersionedLists(state).replace(
        rates_spot.CARD, [rates_spot.as_row(one) for one in every], actor, source, at_us
    )
