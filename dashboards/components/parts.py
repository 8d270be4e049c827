"""Building blocks of all pages: numbers, bars, tables, cards, links."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from dash import dcc, html
from dash.development.base_component import Component

from gpuwatch.dashboards.components import formats
from gpuwatch.dashboards.components.figures import CONFIG, Figure, in_zone
from gpuwatch.dashboards.shell.query import Query
from gpuwatch.dashboards.shell.theme import BUCKETS, SEVERITIES

Node = Any
"""What Dash takes as children: a component, text, or a list of them."""

HERE = html.Span(" (shown)", className="unseen")
"""Marks the current link for screen readers, because Dash links have no aria-current."""

MAX_SPARK = 72
SPARSE = 24


def aria(label: str) -> dict[str, Any]:
    """The label for screen readers."""
    return {"aria-label": label}


def num(text: str, exact: object = None, name: str = "num") -> Component:
    """A rounded number with the exact one on hover; a missing one is marked as such."""
    if text == formats.MISSING:
        return html.Span(text, className="num missing", title=str(exact or "Not measured"))
    if exact is None:
        return html.Span(text, className=name)
    return html.Span(text, className=name, title=str(exact) if formats.number(exact) is None else formats.exact(exact))


def money(value: object, currency: str | None, name: str = "num") -> Component:
    """Rounded money, exact on hover."""
    exact = formats.exact(value, currency or "") if value is not None else "No price for this"
    return num(formats.money(value, currency), exact, name)


def more(value: object, currency: str | None) -> Component:
    """A difference in money, with its sign."""
    amount = formats.number(value)
    sign = "+" if amount is not None and amount > 0 else ""
    return num(f"{sign}{formats.money(amount, currency)}", formats.exact(value, currency or ""))


def lost(value: object, currency: str | None) -> Component:
    """Avoidable cost: red unless zero."""
    amount = formats.number(value)
    return money(value, currency, "num lost" if amount is not None and amount > 0 else "num")


def gpu_time(seconds: object) -> Component:
    """Rounded GPU time, exact on hover."""
    return num(formats.gpu_time(seconds), exact_hours(seconds))


def hours(seconds: object) -> Component:
    """GPU-hours for a table column, more digits on hover."""
    return num(formats.hours(seconds), exact_hours(seconds))


def exact_hours(seconds: object) -> str | None:
    """GPU-hours for a tooltip."""
    found = formats.number(seconds)
    return None if found is None else formats.exact(found / formats.HOUR_S, "GPU-h")


def percent(ratio: object) -> Component:
    """A rounded percentage, more digits on hover."""
    found = formats.number(ratio)
    return num(formats.percent(ratio), None if found is None else formats.exact(found * 100, "%"))


def width(part: float) -> dict[str, str]:
    """The style of a bar that is `part` (0..1) of its track."""
    return {"width": f"{max(0.0, min(1.0, part)) * 100:.2f}%"}


def bar(part: float, kind: str = "") -> Component:
    """A bar in a table cell."""
    return html.Span(html.Span(className=f"bar {kind}".strip(), style=width(part)), className="track")


def strip(seconds: Mapping[str, object], label: str = "") -> Component:
    """One stacked bar of all buckets, in ledger order."""
    sizes = {name: formats.number(value) for name, value in seconds.items()}
    whole = sum((size for size in sizes.values() if size), start=formats.number(0) or 0)
    if not whole:
        return html.Span("No GPU time", className="strip none")
    shown = [(bucket, size) for bucket in BUCKETS if (size := sizes.get(bucket.name))]
    titles = [f"{bucket.word}: {formats.gpu_time(size)} ({formats.percent(size / whole)})" for bucket, size in shown]
    fills = [
        html.Span(className=f"fill b-{bucket.name}", style=width(float(size / whole)), title=title)
        for (bucket, size), title in zip(shown, titles, strict=True)
    ]
    return html.Span(fills, className="strip", role="img", **aria(f"{label} {', '.join(titles)}".strip()))


def bucket_word(name: str) -> Component:
    """A bucket's colour and label."""
    found = next((bucket for bucket in BUCKETS if bucket.name == name), None)
    title = found.meaning if found else ""
    return html.Span(
        [html.Span(className=f"dot b-{name}"), found.word if found else name], className="bucket", title=title
    )


def legend(names: Iterable[str]) -> Component:
    """The labels of the shown buckets, in ledger order."""
    shown = set(names)
    return html.Div([bucket_word(b.name) for b in BUCKETS if b.name in shown], className="legend")


def severity(name: object) -> Component:
    """A severity tag."""
    known = str(name) if str(name) in SEVERITIES else "info"
    return html.Span(str(name), className=f"tag s-{known}")


def tag(text: str, kind: str = "plain") -> Component:
    """A framed label: ok, warn, bad or plain."""
    return html.Span(text, className=f"tag t-{kind}")


def link(text: Node, href: str, name: str = "", title: str | None = None) -> Component:
    """A link to another page of the app."""
    return dcc.Link(text, href=href, className=name or None, title=title)


def team_link(query: Query, name: object) -> Component:
    """A team, linked to its page."""
    label = formats.clip(formats.owner(name), 40)
    if not name:
        return html.Span(label, className="missing")
    return link(label, query.link(f"/team/{name}", team=None), title=str(name))


@dataclass(frozen=True)
class Column:
    """A table column. `sort`: the value of the URL's `sort` parameter that sorts by it, largest first."""

    title: Node
    kind: str = ""
    """CSS classes of its cells: `r` right-aligned, `wide`, `narrow-hide` hidden on a phone."""
    sort: str = ""
    hint: str | None = None


def table(
    columns: Sequence[Column],
    rows: Sequence[Sequence[Node]],
    query: Query | None = None,
    label: str = "",
    sort: str = "",
) -> Component:
    """A table with a sticky header; sortable headers are links. `sort` is the default order."""
    current = query.get("sort", sort) if query else ""

    def head(column: Column) -> Component:
        content: Node = column.title
        order: dict[str, Any] = {}
        if column.sort and query:
            mark = " ↓" if current == column.sort else ""
            content = link(f"{column.title}{mark}", query.link(sort=column.sort, cursor=None), "sort")
            if mark:
                order = {"aria-sort": "descending"}
        return html.Th(content, className=column.kind or None, title=column.hint, scope="col", **order)

    body = [
        html.Tr([html.Td(cell, className=column.kind or None) for column, cell in zip(columns, row, strict=True)])
        for row in rows
    ]
    caption = [html.Caption(label, className="unseen")] if label else []
    inner = html.Table([*caption, html.Thead(html.Tr([head(column) for column in columns])), html.Tbody(body)])
    return html.Div(inner, className="scroll", tabIndex="0", role="region", **aria(label or "Table"))


def card(title: Node, *children: Node, note: Node = None, name: str = "") -> Component:
    """A framed section with a title."""
    head: list[Node] = [html.H2(title)]
    if note is not None:
        head.append(html.Div(note, className="note"))
    return html.Section([html.Header(head), *children], className=f"card {name}".strip())


def plain(*children: Node) -> Component:
    """A framed section without a title."""
    return html.Section(list(children), className="card bare")


def pager(answer: Mapping[str, Any], query: Query) -> Component | None:
    """Links to the next page and back to the first."""
    links = [link("First page", query.link(cursor=None), "button")] if query.get("cursor") else []
    if answer.get("next"):
        links.append(link("Next page", query.link(cursor=str(answer["next"])), "button"))
    return html.Div(links, className="pager") if links else None


def numbered(items: Sequence[Any], size: int, query: Query) -> tuple[Sequence[Any], Component | None]:
    """The items on the current page of a list, and links to the next and previous page."""
    last = max(1, -(-len(items) // size))
    at = min(max(1, int(query.get("page")) if query.get("page").isdecimal() else 1), last)
    shown = items[(at - 1) * size : at * size]
    if last == 1:
        return shown, None
    links: list[Component] = [html.Span(f"Page {at} of {last}", className="soft")]
    if at > 1:
        links.append(link("Previous", query.link(page=str(at - 1)), "button"))
    if at < last:
        links.append(link("Next", query.link(page=str(at + 1)), "button"))
    return shown, html.Div(links, className="pager")


def spark(values: Sequence[float | None], label: str) -> Component:
    """A spark line as columns from zero, with gaps where nothing was measured."""
    shown = list(values)[-MAX_SPARK:]
    top = max((value for value in shown if value is not None), default=0.0) or 1.0
    columns = [
        html.Span(className="gap")
        if value is None
        else html.Span(style={"height": f"{max(value / top, 0.02) * 100:.0f}%"})
        for value in shown
    ]
    dense = " dense" if len(columns) > SPARSE else ""
    return html.Div(columns, className=f"spark{dense}", role="img", **aria(label))


@dataclass(frozen=True)
class Headline:
    """One of up to five numbers at the top of a page. `before`: what its change is against."""

    label: str
    value: Component
    change: str | None = None
    good: bool | None = None
    """Whether the change is good; None if neutral."""
    series: Sequence[float | None] = ()
    note: Node = None
    href: str | None = None
    before: str = "previous"


def headlines(items: Sequence[Headline]) -> Component:
    """The row of headline numbers."""

    def one(item: Headline) -> Component:
        tone = "" if item.good is None or item.change in (None, "no change") else " up" if item.good else " down"
        against = html.Span(
            [item.change, html.Span(f" vs. {item.before}", className="soft")], className=f"change{tone}"
        )
        if item.change == "no change":
            against = html.Span("unchanged", className="change")
        label = link(item.label, item.href) if item.href else item.label
        return html.Div(
            [
                html.Div(label, className="label"),
                html.Div(item.value, className="value"),
                html.Div(against if item.change else (item.note or "\u00a0"), className="under"),
                spark(item.series, f"{item.label} over the window") if len(item.series) > 1 else None,
            ],
            className="headline",
        )

    return html.Div([one(item) for item in items[:6]], className="headlines")


def heading(title: str, note: Node = None, *actions: Node) -> Component:
    """The top of a page."""
    return html.Div(
        [
            html.Div([html.H1(title), html.Div(note, className="note") if note else None]),
            html.Div(list(actions), className="actions"),
        ],
        className="heading",
    )


def picks(choices: Sequence[tuple[str, str, bool]], label: str) -> Component:
    """A row of links: (label, URL, whether it is the current one)."""
    items = [
        dcc.Link([word, HERE] if current else word, href=href, className="pick current" if current else "pick")
        for word, href, current in choices
    ]
    return html.Nav(items, className="picks", **aria(label))


def graph(figure: Figure, style: Mapping[str, str], label: str = "") -> Component:
    """A Plotly figure that fills its container. Its height is reserved until assets/charts.js loads the library. `label`: for screen readers."""
    config: Any = CONFIG
    drawn = dcc.Graph(figure=in_zone(figure), config=config, style=dict(style), responsive=True)
    role: dict[str, Any] = {"role": "img", **aria(label)} if label else {}
    return html.Div(drawn, className="chart", style={"minHeight": style["height"]}, **role)
