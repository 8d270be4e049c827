"""Types of the values in a callback request: a wrong one is the sender's mistake, not a fault of a page."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

TYPES: dict[str, tuple[type, ...]] = {
    "pathname": (str,),
    "search": (str,),
    "data": (str,),
    "value": (str, list),
    "n_clicks": (int,),
    "n_intervals": (int,),
    "n_submit": (int,),
}
"""What the pages' callbacks take, by property; null is fine for each."""
MAX_VALUES = 10_000
"""Values that one request may have."""


def fault(body: bytes) -> str | None:
    """What is wrong with the body of a callback request, in words; None if its values have the right types."""
    try:
        request = json.loads(body)
    except (ValueError, RecursionError):
        return "the callback request is not JSON"
    if not isinstance(request, dict):
        return "the callback request is not a JSON object"
    for number, (name, value) in enumerate(_values(request)):
        if number >= MAX_VALUES:
            return f"the callback request has more than {MAX_VALUES} values"
        kinds = TYPES.get(name)
        wrong = kinds is not None and value is not None and (isinstance(value, bool) or not isinstance(value, kinds))
        if wrong or (isinstance(value, list) and not all(isinstance(one, str | None) for one in value)):
            return f"the callback request has {type(value).__name__} as {name}"
    return None


def _values(request: dict[str, Any]) -> Iterator[tuple[str, Any]]:
    """(property, value) of all inputs and states; those of a pattern stand in a list of their own."""
    for part in ("inputs", "state"):
        entries = request.get(part)
        for entry in entries if isinstance(entries, list) else ():
            for one in entry if isinstance(entry, list) else (entry,):
                if isinstance(one, dict) and isinstance(one.get("property"), str):
                    yield one["property"], one.get("value")
