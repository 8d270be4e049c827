"""Tables of charges and of the ledger for people: GPU-hours, costs in cents, shares, the largest first, a total."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import timedelta
from decimal import Decimal
from typing import Any

from gpuwatch.core.clock import from_us, parse_rfc3339
from gpuwatch.ledger.dimensions import LABEL, RUN_WORDS, WORDS
from gpuwatch.ledger.measures import UNHELD
from gpuwatch.output.listing import Listing

OWNERS = {"__platform__": "Platform", "__unallocated__": "No team assigned"}
MEANINGS = {
    OWNERS["__platform__"]: "Platform: GPU time that no job held.",
    OWNERS[
        "__unallocated__"
    ]: "No team assigned: jobs that no account, namespace or rule gives a team (gpuwatch doctor has the fix).",
}
"""Below a table that has such a row."""
NO_PRICE_MAX = 3
"""Missing rates that are named below a table."""
RATES_FIX = "Set prices with gpuwatch rates set FILE; gpuwatch doctor prints the lines of the file."


@dataclass
class _Row:
    """One line of a table; `cost` is None while nothing of it has a price."""

    seconds: Decimal = Decimal(0)
    cost: Decimal | None = None
    inferred: bool = False
    ruled: bool = False
    """Whether a rule decides the team of some of it."""

    def add(self, item: Mapping[str, Any]) -> None:
        self.seconds += Decimal(item["gpu_seconds"])
        if item["cost"] is not None:
            self.cost = (self.cost or Decimal(0)) + Decimal(item["cost"])
        self.inferred = self.inferred or bool(item.get("inferred"))
        self.ruled = self.ruled or not item.get("inferred") or bool(item.get("partly_inferred"))


def for_people(listing: Listing, by: Sequence[str]) -> Listing:
    """The listing with the table that people read; JSON and CSV stay as they are. Rows that differ in nothing shown are one.

    Shares are of the cost, or of the GPU-hours while some or all of the time has no price. A currency is shown in the header;
    with several, each has rows of its own and there is no share.
    """
    currencies = sorted({item["currency"] for item in listing.items if item["currency"]})
    kinds = sorted({item["kind"] for item in listing.items if "kind" in item} - {"allocated", "platform"})
    words = [*by, *(["kind"] if kinds else []), *(["currency"] if len(currencies) > 1 else [])]
    of_owner = any(word == "team" or _of_run(word) for word in words)
    rows: dict[tuple[Any, ...], _Row] = {}
    for item in listing.items:
        rows.setdefault((*(item.get(word) for word in words), of_owner and _is_platform(item)), _Row()).add(item)
    whole = _Row()
    for item in listing.items:
        whole.add(item)
    unpriced = sum((Decimal(item["gpu_seconds"]) for item in listing.items if item["cost"] is None), Decimal(0))
    by_cost = not unpriced and len(currencies) == 1 and bool(whole.cost)
    ordered = sorted(
        rows.items(), key=lambda entry: (-(entry[1].cost or 0) if by_cost else -entry[1].seconds, str(entry[0]))
    )
    cost = f"cost {currencies[0]}" if len(currencies) == 1 else "cost"
    names = [*words, "gpu_hours", *([cost] if currencies else []), *(["share"] if len(currencies) < 2 else [])]

    def line(shown: Mapping[str, object], row: _Row) -> dict[str, object]:
        part, total = (row.cost or Decimal(0), whole.cost) if by_cost else (row.seconds, whole.seconds)
        amounts = {
            "gpu_hours": f"{row.seconds / 3600:,.1f}",
            cost: "no price" if row.cost is None else f"{row.cost:,.2f}",
            "share": f"{part / total:.1%}" if total else "",
        }
        return {**shown, **amounts}

    table = [line(_named(words, key) | _mark(key, words, row), row) for key, row in ordered]
    if len(table) > 1 and len(currencies) < 2:
        table.append(line({word: "Total" if n == 0 else "" for n, word in enumerate(words)}, whole))
    foot = [*_no_price(listing, unpriced), *[line for line in listing.foot if not line.startswith(REPLACED)]]
    foot += [text for name, text in MEANINGS.items() if any(name in row.values() for row in table)]
    return replace(
        listing, shown=names, people=table, right=(cost, "share"), foot=[*foot, _window(listing.extra["window"])]
    )


REPLACED = ("Total: ", "Without a rate: ", "Capacity: ", "Window: ")
"""Lines below the exact table that the table itself, or a plainer line, says here."""


def _is_platform(item: Mapping[str, Any]) -> bool:
    """Whether nobody held the time of a row."""
    return item.get("kind") == "platform" or item.get("bucket") in UNHELD


def _named(words: Sequence[str], key: Sequence[object]) -> dict[str, str]:
    """The dimensions of a row. What only a job has is the platform's, once, where nobody held the time, and else says that it is absent."""
    *values, platform = key
    found = dict(zip(words, map(_word, words, values), strict=True))
    lacking = [word for word in words if not found[word] and _of_run(word)]
    if not platform:
        return found | {word: f"(no {'label' if word.startswith(LABEL) else word})" for word in lacking}
    return found | ({lacking[0]: OWNERS["__platform__"]} if lacking and "team" not in words else {})


def _of_run(word: str) -> bool:
    return word in RUN_WORDS or word in WORDS or word.startswith(LABEL)


def _word(name: str, value: object) -> str:
    text = "" if value is None else str(value)
    return OWNERS.get(text, text) if name == "team" else text


def _mark(key: Sequence[object], words: Sequence[str], row: _Row) -> dict[str, str]:
    if not row.inferred or "team" not in words:
        return {}
    return {"team": f"{key[words.index('team')]} ({'partly ' if row.ruled else ''}inferred)"}


def _no_price(listing: Listing, unpriced: Decimal) -> list[str]:
    """What has no price, once, and the fix."""
    if not unpriced:
        return []
    missing = list(
        dict.fromkeys(str(item["error"]).partition(" at ")[0] for item in listing.items if item.get("error"))
    )
    named = "; ".join(missing[:NO_PRICE_MAX]) + (
        f" and {len(missing) - NO_PRICE_MAX} more" if len(missing) > NO_PRICE_MAX else ""
    )
    lines = [f"{unpriced / 3600:,.1f} GPU-hours have no price. {RATES_FIX}"]
    return [*lines, f"Missing: {named}"] if named else lines


def _window(ends: Mapping[str, str]) -> str:
    """`Window: Mon 2026-11-16 00:00 to Mon 2026-11-23 00:00 UTC (7 days)`."""
    start_us, end_us = (parse_rfc3339(ends[end]) for end in ("start", "end"))
    first, last = (f"{from_us(at_us):%a %Y-%m-%d %H:%M}" for at_us in (start_us, end_us))
    return f"Window: {first} to {last} UTC ({_length(timedelta(microseconds=end_us - start_us))})"


def _length(span: timedelta) -> str:
    if span >= timedelta(days=2) or span == timedelta(days=1):
        count, unit = span / timedelta(days=1), "day"
    else:
        count, unit = span / timedelta(hours=1), "hour"
    text = f"{count:.1f}".removesuffix(".0")
    return f"{text} {unit}" if text == "1" else f"{text} {unit}s"
