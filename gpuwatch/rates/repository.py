"""The rate card in the state database: stored as a versioned list, one row per rate."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from decimal import Decimal
from json import dumps, loads
from typing import Any

from gpuwatch.rates import node_split
from gpuwatch.rates.card import ASSUME_SPOT, MORE, SCOPE, Rate, check_rates
from gpuwatch.rates.csv_table import plain
from gpuwatch.state import State
from gpuwatch.state.versioned_lists import VersionedLists

RATES = "rates"
"""The versioned list that stores the rate card."""

_COLUMNS = ("gpu_model", "pricing", "usd_per_gpu_hour", "valid_from_us", "valid_to_us", *SCOPE, "line")
"""Fields of a rate that have a column of their own, in the order of the columns."""


def replace_rates(
    state: State, rates: Sequence[Rate], actor: str, source: str, at_us: int, expected: Collection[str] | None = None
) -> bool:
    """Makes `rates` the new version of the rate card. True if that changes it; the order of rates does not matter.

    Raises UsageError naming two rates that are valid at once, ChangedMeanwhile as VersionedLists.replace does.
    """
    check_rates(rates)
    rows = sorted((stored(rate) for rate in rates), key=_order)
    return VersionedLists(state).replace(RATES, rows, actor, source, at_us, expected)


def load_rates(state: State, version: int | None = None) -> tuple[Rate, ...]:
    """The current rate card, or an older version of it; () where there is none."""
    return tuple(from_stored(row) for row in VersionedLists(state).rows(RATES, version))


def stored(rate: Rate) -> dict[str, Any]:
    """A rate as a database row. Its rarely used fields (MORE) share one JSON text, NULL where all are absent."""
    values: dict[str, Any] = {name: getattr(rate, name) for name in (*_COLUMNS, *MORE)}
    texts = {name: plain(value) if isinstance(value, Decimal) else value for name, value in values.items()}
    more = {name: texts[name] for name in MORE} | node_split.shown(rate.node)
    more = {name: text for name, text in more.items() if text is not None}
    more |= {ASSUME_SPOT: True} if rate.assume_spot else {}
    return {name: texts[name] for name in _COLUMNS} | {"more": dumps(more) if more else None}


def from_stored(row: Mapping[str, Any]) -> Rate:
    """The rate of a row that `stored` made."""
    fields = {name: row[name] for name in _COLUMNS} | loads(row["more"] or "{}")
    node = node_split.node_of({name: fields.pop(name, None) for name in node_split.COLUMNS})
    amounts = ("usd_per_gpu_hour", "list_price", "contracted_price")
    return Rate(**fields | {name: Decimal(fields[name]) for name in amounts if name in fields}, node=node)


def _order(row: Mapping[str, Any]) -> str:
    """Sorts rates by content, so that the same rates in another order are the same version."""
    return dumps([value for name, value in row.items() if name != "line" and not (name == "more" and value is None)])
