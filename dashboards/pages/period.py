"""One closed period: its bill by team, corrections, closings and signatures."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from decimal import Decimal
from urllib.parse import quote

from dash import html
from dash.development.base_component import Component
from dash.exceptions import PreventUpdate

from gpuwatch.dashboards.client import Api, Row, administers
from gpuwatch.dashboards.components import formats, ledger_math, parts
from gpuwatch.dashboards.editing import fields
from gpuwatch.dashboards.editing.fields import Field
from gpuwatch.dashboards.editing.outcome import CLOSED, Outcome, Values, acts_on
from gpuwatch.dashboards.pages.finding import fact
from gpuwatch.dashboards.pages.periods import corrected, state_tag
from gpuwatch.dashboards.shell.page import page
from gpuwatch.dashboards.shell.query import Query

MAX_TEAMS = 100
MAX_LINES = 200


@dataclass(frozen=True)
class Group:
    """Correction lines of one team with the same cause and posting time."""

    posted_at: str
    why: str
    team: str
    currency: str
    seconds: Decimal
    cost: Decimal | None


async def load(api: Api, query: Query) -> Row:
    """The period in the path, with its correction lines, and who looks at it."""
    found = await api.period(query.path.removeprefix("/periods/"), "corrections", query.get("cursor"))
    return {**found, "me": await api.me()}


@page("/periods/*", "Period", load, filters=(), under="/teams")
def layout(data: Row, query: Query, scheme: str) -> Component:
    """The bill and its corrections, the closings, and what an administrator may do."""
    period: Row = data["period"]
    edits = administers(data.get("me") or {})
    return html.Div(
        [
            parts.link("← Periods", query.link("/periods"), "back"),
            form(period, query) if edits else None,
            html.Div(
                [
                    html.Div([summary(period, query), lines(data, query)], className="column"),
                    html.Div([history(period), check(period, query, edits)], className="column"),
                ],
                className="two-one",
            ),
        ]
    )


def summary(period: Row, query: Query) -> Component:
    """The bill by team, as frozen and as corrected."""
    name, currency, window = str(period.get("period")), str(period.get("currency") or ""), period.get("window") or {}
    frozen, later = (
        ledger_math.by_key(period.get("rows") or [], "team"),
        ledger_math.by_key(period.get("corrections") or [], "team"),
    )
    teams = sorted(frozen.keys() | later.keys(), key=lambda team: (-(amount(frozen, team) or 0), team))
    columns = [
        parts.Column("Team"),
        parts.Column("GPU-h", "r narrow-hide"),
        parts.Column("Billed", "r"),
        *((parts.Column("Corrected", "r"), parts.Column("Now", "r")) if later else ()),
    ]
    rows = []
    for team in teams[:MAX_TEAMS]:
        billed, change = amount(frozen, team), amount(later, team)
        now = billed if change is None else (billed or Decimal(0)) + change
        rows.append(
            [
                whose(team, name, query),
                parts.hours(frozen[team].seconds) if team in frozen else html.Span(),
                parts.money(billed if team in frozen else Decimal(0), currency),
                *(
                    (parts.more(change, currency) if team in later else html.Span(), parts.money(now, currency))
                    if later
                    else ()
                ),
            ]
        )
    more = html.P(f"and {len(teams) - MAX_TEAMS} more", className="soft") if len(teams) > MAX_TEAMS else None
    later_sum = corrected(period)
    return html.Section(
        [
            html.Div(
                [
                    state_tag(period),
                    html.Span(formats.span(window.get("start"), window.get("end")), className="soft"),
                ],
                className="facts",
            ),
            html.H1(f"Bill for {name}"),
            html.Div(
                [
                    fact("Billed", parts.money(period.get("cost"), currency)),
                    fact("GPU time", parts.gpu_time(period.get("gpu_seconds"))),
                    fact("Corrections since", parts.more(later_sum, currency)),
                    fact("See also", onward(name, query)),
                ],
                className="keyfacts",
            ),
            parts.table(columns, rows, label="Bill by team"),
            more,
        ],
        className="card",
    )


def whose(team: str, name: str, query: Query) -> Component:
    """A team, linked to its charges in the period."""
    label = formats.clip(formats.owner("" if team == "None" else team), 60)
    if team == "None" or team.startswith("__"):
        return html.Span(label, className="soft")
    return parts.link(label, query.link("/teams", window=name, team=team, by="user"), "title", team)


def onward(name: str, query: Query) -> Component:
    """Links to the charges, and to the report of a week."""
    charges = parts.link("Charges", query.link("/teams", window=name), "more")
    report = parts.link("Report", query.link("/reports", week=name, team=None), "more")
    return html.Div([charges, ", ", report] if "W" in name else charges)


def amount(sums: dict[str, ledger_math.Sum], team: str) -> Decimal | None:
    """The cost of a team; None without charges or price."""
    return sums[team].cost if team in sums else None


def lines(data: Row, query: Query) -> Component:
    """Corrections by time, cause and team."""
    found = grouped(data.get("items") or [])
    if not found:
        return parts.card("No corrections")
    columns = [
        parts.Column("Why"),
        parts.Column("Team"),
        parts.Column("GPU-h", "r narrow-hide"),
        parts.Column("Cost", "r"),
    ]
    rows = [
        [
            html.Div(
                [
                    formats.clip(one.why, 100),
                    html.Div(formats.when(one.posted_at), className="soft small nowrap"),
                ]
            ),
            formats.clip(formats.owner(one.team), 40),
            parts.hours(one.seconds),
            parts.more(one.cost, one.currency),
        ]
        for one in found[:MAX_LINES]
    ]
    note = "Billed in the period that was open when they were posted."
    return parts.card(
        "Corrections since closing",
        parts.table(columns, rows, label="Corrections"),
        parts.pager(data, query),
        note=note,
    )


def grouped(items: Iterable[Row]) -> list[Group]:
    """Correction lines summed by time, cause and team: newest first, then largest amount."""
    sums: dict[tuple[str, str, str, str], ledger_math.Sum] = {}
    for item in items:
        key = tuple(str(item.get(name) or "") for name in ("posted_at", "why", "team", "currency"))
        at, why, team, currency = key
        seconds = formats.number(item.get("gpu_seconds")) or Decimal(0)
        sums[at, why, team, currency] = sums.get((at, why, team, currency), ledger_math.Sum()).plus(
            seconds, formats.number(item.get("cost"))
        )
    ordered = sorted(sums.items(), key=lambda entry: (-abs(entry[1].cost or Decimal(0)), entry[0]))
    ordered.sort(key=lambda entry: entry[0][0], reverse=True)
    return [Group(*key, part.seconds, part.cost) for key, part in ordered]


def history(period: Row) -> Component:
    """Each closing with its signatures and, if any, the reason for reopening."""
    entries: list[Component] = []
    for closing in period.get("closings") or []:
        signed = [one for one in period.get("signatures") or [] if one.get("number") == closing.get("number")]
        entries.append(
            html.Li(
                [
                    html.Div(
                        [
                            html.B(f"Closing {closing.get('number')}"),
                            f" {formats.when(closing.get('closed_at'))} by {formats.clip(closing.get('closed_by'), 60)}",
                        ]
                    ),
                    html.Div(["SHA-256 ", html.Span(str(closing["digest"]), className="mono")], className="soft")
                    if closing.get("digest")
                    else None,
                    *(html.Div(signature(one)) for one in signed),
                    html.Div(reopened(closing), className="soft") if closing.get("reopened_at") else None,
                ]
            )
        )
    return parts.card("Closings", html.Ul(entries, className="history"), priced_with(period))


def priced_with(period: Row) -> Component | None:
    """Versions of the rates and policies that the current closing was priced with."""
    versions = period.get("versions") or {}
    used = [f"{formats.clip(name, 30)} version {version}" for name, version in versions.items() if version]
    return html.P(f"Priced with {', '.join(used)}", className="soft small") if used else None


def signature(one: Row) -> str:
    """A signature as text."""
    note = f": {formats.clip(one['note'], 200)}" if one.get("note") else ""
    return f"Signed by {formats.clip(one.get('signer'), 60)}, {formats.when(one.get('signed_at'))}{note}"


def reopened(closing: Row) -> str:
    """Who reopened it, when and why, as far as the caller may see."""
    why = f": {formats.clip(closing['reason'], 200)}" if closing.get("reason") else ""
    by = formats.clip(closing.get("reopened_by"), 60)
    return f"Reopened {formats.when(closing.get('reopened_at'))} by {by}{why}"


def check(period: Row, query: Query, edits: bool) -> Component:
    """How to recompute the hash; and what an administrator may do."""
    name, closed = str(period.get("period")), period.get("state") == "closed"
    text = html.A("The text", href=f"/api/v1/periods/{quote(name, safe='')}/content", className="more")
    about = html.P([text, " whose SHA-256 is the hash of the newest closing."], className="soft")
    names = {"sign": "Sign it", "reopen": "Reopen it"} if closed else {"close": "Close it again"}
    links = (
        [parts.link(word, fields.opened(query, action), "button") for action, word in names.items()] if edits else []
    )
    return parts.card("Verify, sign, reopen", about, html.Div(links, className="buttons") if links else None)


def form(period: Row, query: Query) -> Component | None:
    """The form in the address."""
    name, action = str(period.get("period")), query.get("edit")
    cancel = fields.cancel(query)
    if action == "sign":
        signed = (
            Field("name", "Name", placeholder="Ada Byron, FinOps", hint="Empty: the name of your token."),
            Field("note", "Note"),
        )
        return fields.form(f"Sign {name}", signed, {}, [fields.button("sign", "Sign it", "primary"), cancel])
    if action == "reopen":
        note = "Charges come from current data again, and posted corrections are reversed. The closing stays listed."
        asked = [fields.button("reopen", "Reopen it", "danger"), cancel]
        return fields.form(f"Reopen {name}", (Field("reason", "Reason"),), {}, asked, note)
    if action == "close":
        return fields.form(
            f"Close {name} again", (FORCE,), {"force": "no"}, [fields.button("close", "Close it", "primary"), cancel]
        )
    return None


FORCE = Field(
    "force",
    "Close it if data or prices are missing?",
    "choice",
    options=(("no", "No, refuse then"), ("yes", "Yes, close it anyway")),
)


@acts_on("/periods/*")
async def act(api: Api, query: Query, action: str, values: Values) -> Outcome:
    """Signs, reopens or closes the period of the address."""
    name = query.path.removeprefix("/periods/")
    path = f"periods/{quote(name, safe='')}"
    if action == "sign":
        body: Row = {"note": values.get("note", "")} | ({"name": values["name"]} if values.get("name") else {})
        await api.change("POST", f"{path}/sign", body)
        return Outcome(message=f"{name} is signed.", go=CLOSED)
    if action == "reopen":
        if not values.get("reason"):
            return Outcome(wrong={"reason": "Say why: the closing is listed with it."})
        await api.change("POST", f"{path}/reopen", {"reason": values["reason"]}, patient=True)
        return Outcome(message=f"{name} is open again.", go=CLOSED)
    if action == "close":
        await api.change("POST", "periods", {"period": name, "force": values.get("force") == "yes"}, patient=True)
        return Outcome(message=f"{name} is closed.", go=CLOSED)
    raise PreventUpdate
