"""The effect of a change on a past time, by team."""

from __future__ import annotations

from decimal import Decimal

from dash import html
from dash.development.base_component import Component

from gpuwatch.dashboards.client import Api, Row
from gpuwatch.dashboards.components import formats, parts
from gpuwatch.dashboards.editing.fields import Field
from gpuwatch.dashboards.editing.outcome import Values

MAX_TEAMS = 30
MOVED = "Nothing is stored yet."
NO_REASON = "No charge of this time depends on it."
PERIOD = Field(
    "effect",
    "Show the effect on",
    "choice",
    options=(("30d", "The last 30 days"), ("lastmonth", "Last month"), ("month", "This month so far")),
)
ALL, DATED = "all", "dated"
HOLDS = Field(
    "holds", "As if the change held", "choice", options=((ALL, "All of that time"), (DATED, "From the date above on"))
)
DEFAULTS = {PERIOD.name: "30d", HOLDS.name: ALL}


def period(values: Values) -> str:
    """The window of the API that a form asks about."""
    return values.get(PERIOD.name) or DEFAULTS[PERIOD.name]


def holds_throughout(values: Values) -> bool:
    """Whether a form asks what its change would do if it held all of the time."""
    return (values.get(HOLDS.name) or ALL) == ALL


def percent(row: Row) -> Component:
    """The change in percent of what was paid."""
    now, then = formats.number(row.get("now")), formats.number(row.get("then"))
    word = formats.change(then, now) if now and then is not None else None
    return parts.num(word or formats.MISSING)


def total(items: list[Row]) -> list[parts.Node] | None:
    """The sum of all rows, changed or not; None where one is unknown, or of another currency."""
    currencies = {str(row.get("currency")) for row in items}
    sums = {name: [formats.number(row.get(name)) for row in items] for name in ("now", "then")}
    if len(items) < 2 or len(currencies) != 1 or any(None in column for column in sums.values()):
        return None
    [currency] = currencies
    now, then = (sum((one for one in sums[name] if one is not None), Decimal(0)) for name in ("now", "then"))
    cells = (parts.money(now, currency), parts.money(then, currency), parts.more(then - now, currency))
    return [html.B("All together"), *(html.B(cell) for cell in cells), html.B(percent({"now": now, "then": then}))]


async def ask(api: Api, path: str, body: Row | str, values: Values, reason: str = NO_REASON) -> Component:
    """What each team would have paid in the time that a form asks about. `reason`: why nothing changes where nothing does."""
    found = await api.change("POST", f"{path}/what-if", body, window=period(values), patient=True)
    return drawn(found, reason=reason)


def drawn(found: Row, note: str = "", reason: str = NO_REASON) -> Component:
    """The table of teams whose charges change, the largest change first, and the closed periods it touches. `note` says what was
    assumed, `reason` why nothing changes where nothing does.
    """
    items: list[Row] = found.get("items") or []
    changed = [row for row in items if formats.number(row.get("difference"))]
    span = formats.span((found.get("window") or {}).get("start"), (found.get("window") or {}).get("end"))
    notes: list[parts.Node] = [html.P(note)] if note else []
    if closed := [str(name) for name in found.get("closed") or []]:
        verb = "is" if len(closed) == 1 else "are"
        bills = f"{formats.clip(', '.join(closed), 200)} {verb} closed: the bill stays, and the difference is posted as a correction."
        notes.append(html.P(bills, className="strong"))
    if not items:
        return html.Div(
            [
                html.H3(f"No charges in {span}"),
                html.P("There is no data of this time.", className="soft"),
            ]
        )
    if not changed:
        return html.Div([html.H3(f"No charge of {span} changes"), html.P(reason), html.P(MOVED, className="soft")])
    columns = [
        parts.Column("Team"),
        parts.Column("Now", "r"),
        parts.Column("Then", "r"),
        parts.Column("Change", "r"),
        parts.Column("%", "r"),
    ]
    rows = [
        [
            formats.clip(formats.owner(row.get("team")), 40),
            parts.money(row.get("now"), str(row.get("currency"))),
            parts.money(row.get("then"), str(row.get("currency"))),
            parts.more(row.get("difference"), str(row.get("currency"))),
            percent(row),
        ]
        for row in changed[:MAX_TEAMS]
    ]
    if whole := total(items):
        rows.append(whole)
    if len(changed) > MAX_TEAMS:
        notes.append(html.P(f"and {len(changed) - MAX_TEAMS} more teams", className="soft"))
    teams = [row for row in items if not str(row.get("team")).startswith("__")]
    some = [row for row in changed if row in teams]
    title = f"{len(some)} of {len(teams)} teams would have paid another amount in {span}"
    return html.Div([html.H3(title), *notes, parts.table(columns, rows, label=title), html.P(MOVED, className="soft")])
