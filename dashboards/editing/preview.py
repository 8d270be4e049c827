"""The effect of a change on last month, by team."""

from __future__ import annotations

from dash import html
from dash.development.base_component import Component

from gpuwatch.dashboards.client import Api, Row
from gpuwatch.dashboards.components import formats, parts

MAX_TEAMS = 30
WINDOW = "lastmonth"
MOVED = "Nothing is stored yet."


async def ask(api: Api, path: str, body: Row) -> Component:
    """What each team would have paid last month."""
    return drawn(await api.change("POST", f"{path}/what-if", body, window=WINDOW, patient=True))


def drawn(found: Row) -> Component:
    """The table of teams whose charges change, the largest change first, and the closed periods it touches."""
    items: list[Row] = found.get("items") or []
    changed = [row for row in items if formats.number(row.get("difference"))]
    span = formats.span((found.get("window") or {}).get("start"), (found.get("window") or {}).get("end"))
    notes: list[parts.Node] = []
    if closed := [str(name) for name in found.get("closed") or []]:
        verb = "is" if len(closed) == 1 else "are"
        bills = f"{formats.clip(', '.join(closed), 200)} {verb} closed: the bill stays, and the difference is posted as a correction."
        notes.append(html.P(bills, className="strong"))
    if not items:
        return html.Div(
            [
                html.H3(f"No charges in {span}"),
                html.P("The preview is of last month, which has no data.", className="soft"),
            ]
        )
    if not changed:
        return html.Div([html.H3(f"No charge of {span} changes"), html.P(MOVED, className="soft"), *notes])
    columns = [parts.Column("Team"), parts.Column("Now", "r"), parts.Column("Then", "r"), parts.Column("Change", "r")]
    rows = [
        [
            formats.clip(formats.owner(row.get("team")), 40),
            parts.money(row.get("now"), str(row.get("currency"))),
            parts.money(row.get("then"), str(row.get("currency"))),
            parts.more(row.get("difference"), str(row.get("currency"))),
        ]
        for row in changed[:MAX_TEAMS]
    ]
    if len(changed) > MAX_TEAMS:
        notes.append(html.P(f"and {len(changed) - MAX_TEAMS} more teams", className="soft"))
    title = f"{len(changed)} of {len(items)} teams would have paid another amount in {span}"
    return html.Div([html.H3(title), *notes, parts.table(columns, rows, label=title), html.P(MOVED, className="soft")])
