"""The current rates: from the rate card, from owned hardware, and from spot price histories."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from itertools import chain

from gpuwatch.core.errors import ChangedMeanwhile
from gpuwatch.rates import fx, owned
from gpuwatch.rates import spot as rates_spot
from gpuwatch.rates.card import Rate, check_rates
from gpuwatch.rates.owned import Owned
from gpuwatch.rates.repository import RATES, load_rates, replace_rates
from gpuwatch.rates.spot import SpotPrice
from gpuwatch.state import State
from gpuwatch.state.versioned_lists import VersionedLists

CARDS = (RATES, owned.CARD, rates_spot.CARD)
"""Versioned lists that rates come from. Where two price the same GPUs equally specifically, the first wins."""
ADDED_TRIES_MAX = 5
"""Tries to add to a list that others change meanwhile."""


def by_card(state: State) -> dict[str, tuple[Rate, ...]]:
    """The current rates by the versioned list they come from."""
    return {
        RATES: load_rates(state),
        owned.CARD: tuple(one.rate() for one in owned_hardware(state)),
        rates_spot.CARD: rates_spot.spot_rates(spot_prices(state)),
    }


def in_force(state: State) -> tuple[Rate, ...]:
    """Every current rate."""
    return tuple(chain.from_iterable(by_card(state).values()))


def versions(state: State) -> dict[str, int]:
    """The versions of all lists that prices depend on, without the ownership rules."""
    return {kind: state.card_version(kind) for kind in (*CARDS, fx.CARD)}


def owned_hardware(state: State) -> tuple[Owned, ...]:
    """The owned hardware as configured."""
    return tuple(owned.owned_of(row, 0) for row in VersionedLists(state).rows(owned.CARD))


def spot_prices(state: State) -> tuple[SpotPrice, ...]:
    """The imported spot prices."""
    return tuple(rates_spot.from_row(row) for row in VersionedLists(state).rows(rates_spot.CARD))


def set_rates(
    state: State, rates: Sequence[Rate], actor: str, source: str, at_us: int, expected: Collection[str] | None = None
) -> bool:
    """Replaces the rate card. Raises UsageError naming two rates, of any list, that are valid at once.

    `expected` as for VersionedLists.replace.
    """
    checked_rates(state, rates)
    return replace_rates(state, rates, actor, source, at_us, expected)


def checked_rates(state: State, rates: Sequence[Rate]) -> dict[str, tuple[Rate, ...]]:
    """A rate card by its list. Raises UsageError as set_rates does."""
    kept = by_card(state)
    check_rates(chain(rates, *(kept[card] for card in CARDS[1:])))
    return {RATES: tuple(rates)}


def checked_owned(state: State, hardware: Sequence[Owned]) -> dict[str, tuple[Rate, ...]]:
    """The rates of owned hardware by their list. Raises UsageError as set_owned does."""
    made = tuple(one.rate() for one in hardware)
    check_rates(chain(made, (rate for rate in load_rates(state) if rate.pricing == owned.CARD)))
    return {owned.CARD: made}


def set_owned(
    state: State,
    hardware: Sequence[Owned],
    actor: str,
    source: str,
    at_us: int,
    expected: Collection[str] | None = None,
) -> bool:
    """Replaces the owned hardware. Raises UsageError as set_rates does, and for a power that has not been measured yet."""
    checked_owned(state, hardware)
    rows = [owned.shown(one) for one in hardware]
    return VersionedLists(state).replace(owned.CARD, rows, actor, source, at_us, expected)


def add_spot(
    state: State,
    new: Sequence[SpotPrice],
    actor: str,
    source: str,
    at_us: int,
    expected: Collection[str] | None = None,
) -> bool:
    """Adds spot prices to the imported ones. True if that changes them. Raises UsageError as spot.merged does.

    `expected` as for VersionedLists.replace; without it, prices that others add at the same time are kept.
    """
    for _ in range(ADDED_TRIES_MAX - 1):
        try:
            return _added(state, new, actor, source, at_us, expected)
        except ChangedMeanwhile:
            if expected is not None:
                raise
    return _added(state, new, actor, source, at_us, expected)


def _added(
    state: State,
    new: Sequence[SpotPrice],
    actor: str,
    source: str,
    at_us: int,
    expected: Collection[str] | None,
) -> bool:
    """One try: ChangedMeanwhile if the list is another one than that which was read."""
    read = {str(state.card_version(rates_spot.CARD))} if expected is None else expected
    every = rates_spot.merged(spot_prices(state), new)
    check_rates(chain(rates_spot.spot_rates(every), (rate for rate in load_rates(state) if rate.pricing == "spot")))
    rows = [rates_spot.as_row(one) for one in every]
    return VersionedLists(state).replace(rates_spot.CARD, rows, actor, source, at_us, read)
