"""A report as one HTML file: no script, no request, fit to be mailed and printed. Pure."""

from __future__ import annotations

from gpuwatch.report.document import (
    SIZE,
    Bar,
    Block,
    Card,
    Cell,
    Chart,
    Column,
    Document,
    Heading,
    Notice,
    Numbers,
    Row,
    Section,
    Table,
    Terms,
    Text,
)
from gpuwatch.report.html import chart
from gpuwatch.report.html.markup import Html, join, tag
from gpuwatch.report.html.style import CSS

POLICY = "default-src 'none'; style-src 'unsafe-inline'; img-src data:; base-uri 'none'; form-action 'none'"
"""What a browser may do with the file: show it."""
SHORT = 14
"""Rows of a table that is not torn by a page break."""


def page(document: Document) -> str:
    """The whole document."""
    head = tag(
        "head",
        tag("meta", charset="utf-8"),
        tag("meta", http_equiv="Content-Security-Policy", content=POLICY),
        tag("meta", name="viewport", content="width=device-width, initial-scale=1"),
        tag("title", document.title),
        tag("style", Html(CSS)),
    )
    body = tag(
        "body",
        chart.hatching(),
        tag("header", tag("h1", document.title), [_block(block) for block in document.head]),
        [_section(section) for section in document.sections],
    )
    return f'<!DOCTYPE html>\n<html lang="en">{head}{body}</html>\n'


def _section(section: Section) -> Html:
    return tag(
        "section", tag("h2", section.title), [_block(block) for block in section.blocks], cls=section.name or None
    )


def _block(block: Block) -> Html:
    match block:
        case Text(text, kind):
            return tag("p", text, cls=kind or None)
        case Heading(text):
            return tag("h3", text)
        case Numbers(items):
            shown = (
                tag("li", tag("span", h.label), tag("b", h.value, title=h.exact), tag("span", h.change or "\u00a0"))
                for h in items
            )
            return tag("ul", list(shown), cls="numbers")
        case Table():
            return _table(block)
        case Card():
            return _card(block)
        case Notice(title, points):
            return tag("div", tag("p", tag("b", title)), tag("ul", [tag("li", p) for p in points]), cls="notice")
        case Chart(pillars, words):
            columns = [
                tag("li", tag("span", p.value), chart.pillar(p.height, p.part, p.pale), tag("small", p.label))
                for p in pillars
            ]
            return tag("ol", columns, cls="pillars", role="img", aria_label=words)
        case Terms(terms):
            return tag("dl", [part for term, text in terms for part in (tag("dt", term), tag("dd", text))])


def _table(table: Table) -> Html:
    heads = [tag("th", c.head, cls=_classes(c), scope="col") for c in table.columns]
    head = tag("thead", tag("tr", heads)) if any(c.head for c in table.columns) else None
    body = tag("tbody", [_row(table, row) for row in table.rows])
    short = table.name != "fall" and len(table.rows) <= SHORT
    return tag("table", head, body, cls=f"{table.name} short" if short else table.name)


def _row(table: Table, row: Row) -> Html:
    cells = [_cell(column, cell) for column, cell in zip(table.columns, row.cells, strict=True)]
    return tag("tr", cells, cls=row.kind or None)


def _cell(column: Column, cell: Cell) -> Html:
    mark = None if cell.swatch is None else chart.swatch(cell.swatch)
    return tag("td", mark, _bar(cell.bar), cell.text or None, cls=_classes(column))


def _bar(bar: Bar | None) -> Html | None:
    if bar is None:
        return None
    return chart.size(bar.length) if bar.kind == SIZE else chart.bar(bar.kind, bar.start, bar.length, bar.words)


def _classes(column: Column) -> str | None:
    named = {"chart": column.chart, "label": column.label, "n": column.number, "wide": column.wide}
    return " ".join(name for name, has in named.items() if has) or None


def _card(card: Card) -> Html:
    title = tag("b", tag("span", card.severity, cls="word"), f" {card.title}")
    return tag(
        "article",
        tag("p", title, tag("b", card.lost), cls="top"),
        tag("p", card.summary),
        tag("p", card.about, cls="soft"),
        tag("p", join(tag("b", "Do: "), card.remedy)) if card.remedy else None,
        cls=f"find {card.severity}",
    )
