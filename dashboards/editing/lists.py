"""Lists that the API replaces whole: read with their version, changed in one place, and written under that version."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from typing import Any

from gpuwatch.dashboards.client import MAX_LIMIT, Api, ApiFailure, Row
from gpuwatch.dashboards.components import formats

PAGES_MAX = 100
"""Pages of a list that are read; one has MAX_LIMIT rows."""
UNPAGED: dict[str, dict[str, object]] = {"budgets/set": {"limit": None}}
"""Lists that come whole, and so take no limit."""


@dataclass(frozen=True)
class Listed:
    """All rows of a list, the version that they are of, and what else the list has."""

    items: list[Row]
    version: str
    more: Row = field(default_factory=dict)


async def whole(api: Api, path: str, **options: object) -> Listed:
    """Every row of a list."""
    items: list[Row] = []
    first: Row = {}
    cursor = ""
    for _ in range(PAGES_MAX):
        found = await api.get(path, **{"limit": MAX_LIMIT, "cursor": cursor} | options)
        first = first or found
        items += found.get("items") or []
        cursor = str(found.get("next") or "")
        if not cursor:
            more = {name: value for name, value in first.items() if name not in ("items", "next", "version")}
            return Listed(items, str(first.get("version", "")), more)
    raise ApiFailure(413, "too_large", "The list is too long to be edited on a page.", "Replace it with a file.")


async def replace(
    api: Api, path: str, version: str, change: Callable[[list[Row]], list[Row]], *, read: str = ""
) -> Row:
    """Writes a list after `change`. Refused with 412 if its version is no longer the one that the form was made from."""
    found = await whole(api, read or path, **UNPAGED.get(read, {}))
    return await api.change("PUT", path, {"items": change(found.items)}, version=version)


def at(items: list[Row], row: str) -> Row:
    """The row of an address; ApiFailure 404 where there is none."""
    if row.isdecimal() and int(row) < len(items):
        return items[int(row)]
    raise ApiFailure(404, "not_found", "This row is no longer in the list.", "Go back to the list.")


def instant(text: str) -> str:
    """A date as the beginning of that day in UTC; anything else as it is, for the API to judge."""
    try:
        day = datetime.strptime(text, "%Y-%m-%d")
    except ValueError:
        return text
    return f"{day:%Y-%m-%d}T00:00:00Z"


def shown(text: object) -> str:
    """An instant for a field: only its date where it is the beginning of a day."""
    return str(text or "").removesuffix("T00:00:00Z")


def amount(value: object, places: int) -> str:
    """An amount as it was set, with at least so many decimals: `4.10`, `0.2275`, `267,700`."""
    found = formats.number(value)
    if found is None:
        return formats.clip(value, 30)
    return f"{found:,.{places}f}" if found == round(found, places) else f"{found.normalize():,f}"


def tomorrow(now: object) -> str:
    """The date after the API's time."""
    moment = formats.moment(now)
    return "" if moment is None else f"{moment + timedelta(days=1):%Y-%m-%d}"


def is_past(text: str, now: object) -> bool:
    """Whether an instant lies before the API's time. What is no time is not: the API refuses it."""
    moment, current = formats.moment(instant(text)), formats.moment(now)
    return moment is not None and current is not None and moment < current


def filled(values: dict[str, Any]) -> Row:
    """A row without empty fields."""
    return {name: value for name, value in values.items() if value not in ("", None)}


def text(value: object) -> str:
    """A value for a field: lists apart by blanks."""
    if isinstance(value, list):
        return " ".join(str(one) for one in value)
    return "" if value is None else shown(value)
