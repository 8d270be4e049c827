"""A page's path and filters. All of it is in the URL, so that a link can be shared."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from urllib.parse import parse_qsl, quote, unquote, urlencode

from gpuwatch.dashboards.components import formats

ROOT = "/ui"
KEPT = ("window", "cluster", "pool", "team")
"""Filters that are kept from page to page."""

DEFAULT_WINDOW = "7d"
MAX_VALUE = 300
MAX_FIELDS = 20

WINDOWS = {
    "24h": "Last 24 hours",
    "7d": "Last 7 days",
    "today": "Today",
    "yesterday": "Yesterday",
    "week": "This week",
    "lastweek": "Last week",
    "month": "This month",
    "lastmonth": "Last month",
}
ROLLING = {"24h": timedelta(days=1), "7d": timedelta(days=7)}
"""Windows that end now, or with data that has ended."""


@dataclass(frozen=True)
class Query:
    """A page's path below /ui (decoded, without trailing slash) and its parameters."""

    path: str = "/"
    values: Mapping[str, str] = field(default_factory=dict)
    ended: tuple[datetime, datetime] | None = None
    """First and last instant of data that has ended (shell/data_end.py)."""

    @classmethod
    def parse(cls, pathname: str | None, search: str | None) -> Query:
        """From the browser's location; long values are clipped, empty ones dropped."""
        path = unquote(pathname or "").removeprefix(ROOT).rstrip("/") or "/"
        try:
            pairs = parse_qsl((search or "").removeprefix("?"), max_num_fields=MAX_FIELDS)
        except ValueError:
            pairs = []
        return cls(path, {name: value[:MAX_VALUE] for name, value in pairs if value})

    def get(self, name: str, default: str = "") -> str:
        """The value of a parameter."""
        return self.values.get(name, default)

    @property
    def window_name(self) -> str:
        """The window in the address."""
        return self.get("window", DEFAULT_WINDOW)

    @property
    def at_the_end(self) -> bool:
        """Whether it asks for the last days of data that has ended."""
        return self.ended is not None and self.window_name in ROLLING

    @property
    def window(self) -> str:
        """The window as the API takes it."""
        if self.ended is None or (length := ROLLING.get(self.window_name)) is None:
            return self.window_name
        start, end = max(self.ended[0], self.ended[1] - length), self.ended[1]
        return ",".join(at.isoformat().replace("+00:00", "Z") for at in (start, end))

    @property
    def window_words(self) -> str:
        """The window as the end of a sentence: `in the last 7 days`, `last week`."""
        if self.ended is not None and self.window_name in ROLLING:
            whole = self.ended[1] - self.ended[0] <= ROLLING[self.window_name]
            return "in all of the data" if whole else f"in the {WINDOWS[self.window_name].lower()} of the data"
        words, _, zone = self.window.partition("@")
        place = f" ({zone})" if zone else ""
        known = WINDOWS.get(words)
        if known is None:
            start, _, end = words.partition(",")
            if zone:
                return f"in {f'{start} to {end}' if end else words}{place}"
            return f"in {formats.span(start, end) if end else words}"
        return f"in the {known.lower()}" if words in ("24h", "7d") else f"{known.lower()}{place}"

    def window_label(self, name: str) -> str:
        """The label of a named window: `16 to 22 Nov, data's end` for the last days of data that has ended."""
        if self.ended is None or name not in ROLLING:
            return WINDOWS[name]
        if self.ended[1] - self.ended[0] <= ROLLING[name]:
            return f"{days(*self.ended)}, all data"
        return f"{days(self.ended[1] - ROLLING[name], self.ended[1])}, data's end"

    @property
    def scope(self) -> dict[str, str]:
        """The cluster and team filters as API parameters. The pool is one of its own."""
        return {name: self.values[name] for name in ("cluster", "team") if name in self.values}

    def link(self, path: str | None = None, /, **changes: str | None) -> str:
        """A link to `path` with the current filters, or to this page with changes; None removes a parameter."""
        kept = self.values if path is None else {name: self.values[name] for name in KEPT if name in self.values}
        wanted = {name: value for name, value in {**kept, **changes}.items() if value}
        return address(self.path if path is None else path, wanted)


def address(path: str, values: Mapping[str, str] | None = None) -> str:
    """A URL below /ui, with every part quoted."""
    base = f"{ROOT}{quote(path, safe='/')}"
    return f"{base}?{urlencode(values)}" if values else base


def days(start: datetime, end: datetime) -> str:
    """`16 to 22 Nov`: the days of a window, without the one that it ends before."""
    low, high = formats.local(start), formats.local(end - timedelta(microseconds=1))
    if (low.year, low.month) != (high.year, high.month):
        return f"{low.day} {low:%b} to {high.day} {high:%b}"
    return f"{high.day} {high:%b}" if low.day == high.day else f"{low.day} to {high.day} {high:%b}"


def finding_link(query: Query, key: str) -> str:
    """The page of a finding."""
    return query.link(f"/findings/{key}")


def job_link(query: Query, cluster: object, job: str) -> str:
    """The page of a job. `in` names its cluster without setting the filter; the id may contain slashes."""
    return query.link(f"/jobs/{job}", **{"in": str(cluster) if cluster else None})
