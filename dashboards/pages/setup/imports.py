"""Imports: files and backfills that were read, and taking one back."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass

from dash import html
from dash.development.base_component import Component
from dash.exceptions import PreventUpdate

from gpuwatch.dashboards.client import Api, Row, administers
from gpuwatch.dashboards.components import formats, parts
from gpuwatch.dashboards.editing import fields
from gpuwatch.dashboards.editing.outcome import CLOSED, Outcome, Values, acts_on
from gpuwatch.dashboards.shell import states
from gpuwatch.dashboards.shell.page import page
from gpuwatch.dashboards.shell.query import Query

PAGE_SIZE = 100


@dataclass(frozen=True)
class Data:
    """One page of imports, and who looks at it."""

    imports: Row
    me: Row


async def load(api: Api, query: Query) -> Data:
    """One page of imports."""
    found, me = await asyncio.gather(api.get("imports", limit=PAGE_SIZE, cursor=query.get("cursor")), api.me())
    return Data(found, me)


@page("/imports", "Imports", load, icon="imports", order=45, filters=(), under="/quality", whole_fleet=True)
def layout(data: Data, query: Query, scheme: str) -> Component:
    """One row per import, newest first."""
    items: list[Row] = data.imports.get("items") or []
    if not items:
        return html.Div(
            [parts.heading("Imports"), states.empty("Nothing was imported", "Data comes from live sources only.")]
        )
    edits = administers(data.me)
    columns = [
        parts.Column(f"When ({formats.zone_word()})", "nowrap"),
        parts.Column("File", "wide"),
        parts.Column("Records", "r narrow-hide"),
        parts.Column("Rejected", "r narrow-hide"),
        parts.Column("Replaced", "r narrow-hide", hint="Read again by a later import, and not counted"),
        parts.Column("State", "narrow-hide"),
        *([parts.Column("Change", "r")] if edits else []),
    ]
    rows = [line(row, query, edits) for row in items]
    return html.Div(
        [
            parts.heading("Imports", "Records from files and backfills."),
            form(items, query) if edits else None,
            parts.plain(parts.table(columns, rows, label="Imports")),
            parts.pager(data.imports, query),
        ],
        className="setup",
    )


def line(row: Row, query: Query, edits: bool) -> list[parts.Node]:
    """An import."""
    state = str(row.get("state"))
    records = f"{int(row.get('records') or 0):,}"
    where = [str(row[name]) for name in ("kind", "cluster", "timezone") if row.get(name)]
    cells: list[parts.Node] = [
        html.Span(formats.clock(row.get("imported_at")), className="num nowrap"),
        html.Div(
            [
                html.Span(formats.clip(row.get("path"), 100), title=str(row.get("path"))),
                html.Div(formats.clip(" · ".join(where), 100), className="soft small"),
                html.Div(f"{records} {'record' if records == '1' else 'records'}", className="soft small narrow-only"),
            ],
            className="breaks",
        ),
        parts.num(records),
        parts.num(f"{int(row.get('rejected') or 0):,}"),
        parts.num(f"{int(row.get('replaced') or 0):,}"),
        parts.tag(state.capitalize(), "ok" if state == "complete" else "warn"),
    ]
    if not edits:
        return cells
    back = fields.controls(query, row.get("id"), formats.clip(row.get("path"), 60), {"forget": "Undo"})
    return [*cells, None if state == "not removable" else back]


def form(items: list[Row], query: Query) -> Component | None:
    """The question whether to undo an import."""
    if query.get("edit") != "forget":
        return None
    row = next((row for row in items if str(row.get("id")) == query.get("row")), {})
    note = (
        f"Its {int(row.get('records') or 0):,} records are removed where no other import has them too, and the hours it touched "
        "are computed again. Closed periods get corrections. Only reading the file again brings it back."
    )
    buttons = [fields.button("forget", "Undo it", "danger"), fields.cancel(query)]
    return fields.form(f"Undo the import: {formats.clip(row.get('path'), 80)}", (), {}, buttons, note)


@acts_on("/imports")
async def act(api: Api, query: Query, action: str, values: Values) -> Outcome:
    """Undoes the import of the address."""
    if action != "forget" or query.get("edit") != "forget" or not query.get("row").isdecimal():
        raise PreventUpdate
    done = await api.change("DELETE", f"imports/{query.get('row')}", patient=True)
    return Outcome(
        message=f"{done.get('records'):,} records are removed. The next analysis computes their hours again.", go=CLOSED
    )
