"""Teams by waste: a bar of buckets for each team, all on one scale, with what was avoidable."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from decimal import Decimal
from typing import Any

from dash import html
from dash.development.base_component import Component

from gpuwatch.dashboards.client import Row
from gpuwatch.dashboards.components import columns, formats, measures, parts
from gpuwatch.dashboards.shell.query import Query
from gpuwatch.dashboards.shell.theme import BUCKETS
from gpuwatch.dashboards.waste.morning import NOT_TEAMS, lost_of, team_home

SHOWN = 8
SHARES_NAMED = 2
COUNTS_FROM, FAR_ABOVE = Decimal("0.01"), Decimal("1.5")
"""A team is named for its share where it has this part of the cost of all, and this many times the share of all."""


def card(answer: Row, query: Query) -> Component | None:
    """The teams with the most avoidable money (or GPU time, without prices); platform and unassigned time among them."""
    rows: list[Row] = answer.get("teams") or []
    if not rows:
        return None
    currency = scale_of(rows, answer.get("currency"))
    ordered = sorted(rows, key=lambda row: (-lost_of(row, currency), -size_of(row, currency), str(row.get("team"))))
    teams = [row for row in ordered if str(row.get("team")) not in NOT_TEAMS]
    others = [row for row in ordered if str(row.get("team")) in NOT_TEAMS]
    named = {str(row.get("team")) for row in (*teams[:SHOWN], *others)}
    shown = [row for row in ordered if str(row.get("team")) in named]
    top = max((size_of(row, currency) for row in shown), default=Decimal(0))
    places = formats.money_places(lost_of(row, currency) for row in shown)
    unit = "GPU-h" if currency is None else formats.sign_of(currency)
    heads = [
        parts.Column("Team", "who-cell"),
        parts.Column("Cost by bucket" if currency else "Time by bucket", "grow"),
        parts.Column(f"Avoidable ({unit})", "r"),
        parts.Column("% of cost" if currency else "% of time", "r", hint="Avoidable part of what the team held"),
    ]
    cells = [line(row, currency, top, places, query) for row in shown]
    table = parts.table(heads, cells, label="Teams by what was avoidable")
    rest = int(answer.get("teams_total") or 0) - len(shown)
    more = parts.link("All teams" if rest <= 0 else f"All teams ({rest} more)", query.link("/teams"), "more")
    buckets = {str(bucket.get("bucket")) for row in shown for bucket in row.get("buckets") or []}
    return parts.card(
        "Teams by waste",
        table,
        by_share(rows, currency, query),
        parts.legend(buckets),
        note=more,
        name="tight teams-waste",
    )


def by_share(rows: Sequence[Row], currency: str | None, query: Query) -> Component | None:
    """The teams that waste the largest part of their own cost, where it is far above that of all: in a list by money they are low."""
    known = {
        str(row.get("team")): (lost_of(row, currency), size_of(row, currency))
        for row in rows
        if str(row.get("team")) not in NOT_TEAMS and not measures.measured_partly(row)
    }
    lost, whole = (sum((one[at] for one in known.values()), Decimal(0)) for at in (0, 1))
    if not lost or not whole:
        return None
    shares = {name: part / size for name, (part, size) in known.items() if size >= whole * COUNTS_FROM}
    high = [name for name in shares if shares[name] >= lost / whole * FAR_ABOVE]
    named = sorted(high, key=lambda name: -shares[name])[:SHARES_NAMED]
    if not named:
        return None
    words: list[Any] = []
    for name in named:
        link = parts.link(formats.clip(name, 30), team_home(query, name))
        words += [" and " if words else "", link, f" ({formats.percent(shares[name])})"]
    of = "cost" if currency else "GPU time"
    return html.P(
        [f"Highest share of their own {of}: ", *words, f". All teams: {formats.percent(lost / whole)}."],
        className="soft small",
    )


def scale_of(rows: Sequence[Row], currency: object) -> str | None:
    """The currency that all time has a price in; None: GPU time is shown instead."""
    priced = all(bucket.get("cost") is not None for row in rows for bucket in row.get("buckets") or [])
    return str(currency) if currency and priced else None


def size_of(row: Row, currency: str | None) -> Decimal:
    """What a team held, in money or GPU-seconds."""
    return formats.number(row.get("gpu_seconds" if currency is None else "cost")) or Decimal(0)


def line(row: Row, currency: str | None, top: Decimal, places: int, query: Query) -> list[Any]:
    """The cells of a team."""
    team = str(row.get("team"))
    known = not measures.measured_partly(row) and (row.get("avoidable") or {}).get("gpu_seconds") is not None
    lost, whole = lost_of(row, currency), size_of(row, currency)
    word, mark, more = formats.owner(team).partition(" (")
    rest = html.Span(f"{mark}{more}", className="narrow-hide") if mark else ""
    name: Component = html.Span([word, rest], className="soft", title=formats.owner(team))
    if team not in NOT_TEAMS:
        name = parts.link(formats.clip(team, 40), team_home(query, team), "title", team)
    if not known:
        unseen = html.Span("not measured", className="soft small nowrap", title=measures.measured_words(row))
        return [name, stack(row, currency, top, team), unseen, parts.num(formats.MISSING)]
    amount = parts.hours(lost) if currency is None else columns.amount(lost, places, currency, lost=True)
    return [name, stack(row, currency, top, team), amount, columns.share(lost / whole if whole else None)]


def stack(row: Row, currency: str | None, top: Decimal, label: str) -> Component:
    """A bar of the buckets of a team; its length is its part of the largest team's."""
    key = "gpu_seconds" if currency is None else "cost"
    sizes: dict[str, Decimal] = {}
    for bucket in row.get("buckets") or []:
        name = str(bucket.get("bucket"))
        sizes[name] = sizes.get(name, Decimal(0)) + (formats.number(bucket.get(key)) or Decimal(0))
    return bar(sizes, currency, top, label)


def bar(sizes: Mapping[str, Decimal], currency: str | None, top: Decimal, label: str) -> Component:
    """Amounts by bucket as one stacked bar, on a scale on which `top` is the whole width."""
    shown = [(bucket, sizes[bucket.name]) for bucket in BUCKETS if sizes.get(bucket.name)]
    if not shown or not top:
        return html.Span(className="strip")
    words = [
        f"{bucket.word}: {formats.gpu_time(size) if currency is None else formats.money(size, currency)}"
        for bucket, size in shown
    ]
    fills = [
        html.Span(className=f"fill b-{bucket.name}", style=parts.width(float(size / top)), title=word)
        for (bucket, size), word in zip(shown, words, strict=True)
    ]
    return html.Span(fills, className="strip", role="img", **parts.aria(f"{label}: {', '.join(words)}"))
