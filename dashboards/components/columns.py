"""Numbers of table columns: as many decimals in every row, the unit in the header, more digits on hover."""

from __future__ import annotations

from dash.development.base_component import Component

from gpuwatch.dashboards.components import formats
from gpuwatch.dashboards.components.parts import num


def amount(value: object, places: int, currency: str | None, lost: bool = False) -> Component:
    """Money of a column with `places` decimals, whose header names the currency; red if it is a loss."""
    found = formats.number(value)
    exact = "No price for this" if found is None else formats.exact(found, currency or "")
    return num(formats.fixed(value, places), exact, "num lost" if lost and found is not None and found > 0 else "num")


def share(ratio: object) -> Component:
    """A percentage of a column whose header has the sign: one decimal."""
    found = formats.number(ratio)
    return num(
        formats.MISSING if found is None else formats.fixed(found * 100, 1),
        None if found is None else formats.exact(found * 100, "%"),
    )
