"""Budgets: amount, spending and forecast of each team's budget, and forms that set them."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass
from decimal import Decimal

from dash import html
from dash.development.base_component import Component

from gpuwatch.dashboards.client import Api, Row, administers
from gpuwatch.dashboards.components import charts, formats, ledger_math, parts
from gpuwatch.dashboards.editing import fields, history, lists
from gpuwatch.dashboards.editing.outcome import Outcome, Values, acts_on
from gpuwatch.dashboards.pages.finding import fact
from gpuwatch.dashboards.pages.setup import budget_list
from gpuwatch.dashboards.shell import states
from gpuwatch.dashboards.shell.page import page
from gpuwatch.dashboards.shell.query import Query
from gpuwatch.dashboards.shell.theme import Scheme

CARDS_A_PAGE = 12
FLEET = "*"
WITHOUT_SHOWN = 12


@dataclass(frozen=True)
class Data:
    """Each budget in its current period; and for an administrator the budgets as they were set."""

    budgets: Row
    set: budget_list.Data | None = None
    month: Row | None = None
    """Charges of this month by team."""


async def load(api: Api, query: Query) -> Data:
    """The budgets, and what an administrator edits."""
    month = None if query.get("team") else api.chargeback("month", "team")
    found, me, charged = await asyncio.gather(
        api.budgets(team=query.get("team")), api.me(), ledger_math.optional(month)
    )
    if not administers(me):
        return Data(found, None, charged)
    listed, fleet = await asyncio.gather(lists.whole(api, "budgets/set", **lists.UNPAGED["budgets/set"]), api.fleet())
    changes = await history.read(api, me, "budgets")
    return Data(found, budget_list.Data(listed, str(fleet["at"]), changes), charged)


@page("/budgets", "Budgets", load, icon="budgets", order=7, filters=("team",), under="/teams")
def layout(data: Data, query: Query, scheme: Scheme) -> Component:
    """A summary, then one card per budget, those at risk first, then the list that administrators edit."""
    items: list[Row] = sorted(data.budgets.get("items") or [], key=urgency)
    add = parts.link("Add a budget", fields.opened(query, "add"), "button primary") if data.set else None
    form = budget_list.form(data.set, query) if data.set else None
    below = budget_list.cards(data.set, query) if data.set else []
    if not items:
        empty = [parts.heading("Budgets", None, add), form, nothing(query), *below]
        return html.Div(empty, className="setup")
    version = data.budgets.get("version")
    of_file = "" if version is None else f", version {version}"
    note = f"{len(items)} budget{'s' if len(items) > 1 else ''}{of_file}"
    shown, links = parts.numbered(items, CARDS_A_PAGE, query)
    return html.Div(
        [
            parts.heading(title(items), note, add),
            form,
            html.Div([card(item, query, scheme) for item in shown], className="budgets"),
            links,
            without(items, data.month, query),
            *below,
        ],
        className="setup",
    )


def without(items: list[Row], month: Row | None, query: Query) -> Component | None:
    """The teams that paid this month and have no budget, by cost."""
    owned = {str(item.get("team")) for item in items}
    rows = [row for row in (month or {}).get("items") or [] if str(row.get("team"))[:2] != "__" and row.get("team")]
    sums = {name: part for name, part in ledger_math.by_key(rows, "team").items() if name not in owned and part.cost}
    if not sums:
        return None
    currency = str(next((row["currency"] for row in rows if row.get("currency")), ""))
    ordered = sorted(sums, key=lambda name: (-(sums[name].cost or 0), name))
    words: list[parts.Node] = []
    for name in ordered[:WITHOUT_SHOWN]:
        cost = formats.rounded(sums[name].cost, currency)
        words += [", " if words else "", parts.team_link(query, name), f" ({cost})"]
    rest = f" and {len(ordered) - WITHOUT_SHOWN} more" if len(ordered) > WITHOUT_SHOWN else ""
    title = f"{len(ordered)} team{'s have' if len(ordered) > 1 else ' has'} no budget"
    return parts.card(title, html.P([*words, rest]), note="Cost this month")


def title(items: list[Row]) -> str:
    """How many budgets are exceeded or will be; else how many may be."""
    kinds = [status(item)[0] for item in items]
    bad, unsure, whole = kinds.count("bad"), kinds.count("warn"), len(items)
    if bad:
        return f"{bad + unsure} of {whole} budgets exceeded or at risk"
    if unsure:
        return f"{unsure} of {whole} budgets may be exceeded"
    return "All budgets on track" if kinds.count("ok") == whole else "No budget is exceeded"


def urgency(item: Row) -> tuple[Decimal, str]:
    """Sort key: largest forecast (or else spending) relative to the amount first, unknown last."""
    amount = formats.number(item.get("amount"))
    ends = formats.number((item.get("forecast") or {}).get("amount"))
    spent = ends if ends is not None else formats.number(item.get("spent"))
    part = spent / amount if spent is not None and amount else Decimal(-1)
    return -part, str(item.get("team"))


def whose(item: Row) -> str:
    """The budget's owner."""
    return "The fleet" if item.get("team") == FLEET else formats.clip(formats.owner(item.get("team")), 40)


def status(item: Row) -> tuple[str, str]:
    """The status tag: its kind and label."""
    amount, spent = formats.number(item.get("amount")), formats.number(item.get("spent"))
    forecast = item.get("forecast") or {}
    middle, high = formats.number(forecast.get("amount")), formats.number(forecast.get("high"))
    if amount is None or spent is None:
        return "plain", "Unknown"
    if spent > amount:
        return "bad", "Exceeded"
    if middle is not None and middle > amount:
        return "bad", "Will be exceeded"
    if high is not None and high > amount:
        return "warn", "May be exceeded"
    return ("ok", "On track") if middle is not None else ("plain", "No forecast yet")


def sentence(item: Row, currency: str) -> str:
    """The card's title: how much is spent."""
    amount = formats.money(item.get("amount"), currency)
    if item.get("spent") is None:
        return f"{whose(item)}: {amount} for {formats.period(item.get('period'))}"
    spent = formats.percent(item.get("spent_ratio"))
    return f"{whose(item)} has spent {spent} of {amount} for {formats.period(item.get('period'))}"


def card(item: Row, query: Query, scheme: Scheme) -> Component:
    """One budget: summary, bar with forecast, numbers and burn-down."""
    currency, (kind, word) = str(item.get("currency") or ""), status(item)
    amount, spent = formats.number(item.get("amount")), formats.number(item.get("spent"))
    left = amount - spent if amount is not None and spent is not None else None
    team = str(item.get("team"))
    href = query.link("/teams", team=None if team == FLEET else team, window=str(item.get("period")))
    facts = [
        fact("Spent", parts.money(item.get("spent"), currency)),
        fact("Left", parts.money(left, currency, "num lost" if left is not None and left < 0 else "num")),
        fact("Forecast", outlook(item.get("forecast") or {}, currency)),
        fact("Runs out", runs_out(item)),
    ]
    if item.get("gpu_hours_quota") is not None:
        quota = formats.short(formats.number(item["gpu_hours_quota"]) or Decimal(0))
        part = parts.num(formats.percent(item.get("gpu_hours_ratio")), f"{item.get('gpu_hours')} GPU-hours")
        facts.append(fact("GPU-hours", html.Div([part, html.Span(f"of {quota}", className="soft small")])))
    return html.Section(
        [
            html.Header([html.H2(parts.link(sentence(item, currency), href)), parts.tag(word, kind)]),
            states.advice(str(item["missing"])) if item.get("missing") else None,
            gauge(item) if spent is not None else None,
            html.Div(facts, className="keyfacts"),
            *drawn(item, scheme),
        ],
        className="card budget",
    )


def outlook(forecast: Row, currency: str) -> Component:
    """The forecast amount with its prediction interval."""
    if not forecast:
        return html.Div([parts.num(formats.MISSING, "Needs a week of data"), None])
    between = html.Span(
        f"{formats.money(forecast.get('low'), currency)} to {formats.money(forecast.get('high'), currency)}",
        className="soft small",
        title=f"{forecast.get('level')} prediction interval",
    )
    return html.Div(
        [parts.money(forecast.get("amount"), currency), between, changed(forecast.get("level_change"), currency)]
    )


def changed(change: Row | None, currency: str) -> Component | None:
    """The last change of the cost of an average day; None without one."""
    if not change:
        return None
    before, after = (formats.money(change.get(name), currency) for name in ("before", "after"))
    words = f"{after} a day since {change.get('since')}, {before} before"
    if not formats.number(change.get("after")):
        words = f"nothing spent since {change.get('since')}, {before} a day before; a restart is not in the forecast"
    return html.Div(words, className="soft small")


def runs_out(item: Row) -> parts.Node:
    """The day on which the budget runs out, if it does and if it can be forecast."""
    day = item.get("runs_out")
    if formats.number(item.get("spent")) is None or not (item.get("forecast") or day):
        return parts.num(formats.MISSING, "No forecast yet")
    if not day:
        return "not in this period"
    spent, amount = formats.number(item.get("spent")), formats.number(item.get("amount"))
    word = "exceeded" if spent is not None and amount is not None and spent > amount else "expected"
    return html.Div([parts.num(formats.day(day)), html.Span(word, className="soft small")])


def drawn(item: Row, scheme: Scheme) -> list[Component]:
    """The burn-down chart with its caption."""
    window, forecast = item.get("window") or {}, item.get("forecast") or {}
    figure = charts.burn_down(item, scheme)
    if figure is None:
        return [] if item.get("missing") else [states.advice("No day of this period is in the ledger yet.")]
    ahead = f"; dotted: forecast; shaded: {forecast.get('level')} prediction interval" if forecast else ""
    caption = f"Remaining budget at the end of each day{ahead} ({formats.span(window.get('start'), window.get('end'))})"
    return [parts.graph(figure, charts.SMALL), html.P(caption, className="soft small")]


def gauge(item: Row) -> Component:
    """Spending as a bar, the forecast interval behind it, the amount as a line, all on one scale."""
    forecast = item.get("forecast") or {}
    amount, spent = (
        formats.number(item.get("amount")) or Decimal(0),
        formats.number(item.get("spent")) or Decimal(0),
    )
    low, high = (formats.number(forecast.get(name)) for name in ("low", "high"))
    top = max(amount, spent, high or Decimal(0)) * Decimal("1.04") or Decimal(1)

    def at(value: Decimal) -> str:
        return f"{float(max(value, Decimal(0)) / top) * 100:.2f}%"

    over = spent > amount
    marks: list[Component] = []
    if low is not None and high is not None:
        span = {"left": at(low), "width": at(high - low)}
        marks.append(html.Span(className="between", style=span, title="Forecast interval"))
    marks.append(html.Span(className="done over" if over else "done", style={"width": at(spent)}))
    marks.append(html.Span(className="mark", style={"left": at(amount)}, title="Budget"))
    label = f"spent {formats.percent(item.get('spent_ratio'))} of the budget"
    return html.Div(marks, className="gauge", role="img", **parts.aria(label))


def nothing(query: Query) -> Component:
    """No budget is set, or none for this team."""
    if query.get("team"):
        return states.empty(
            "This team has no budget",
            "An administrator can add one. Its forecast appears after a week of data.",
            parts.link("All budgets", query.link("/budgets", team=None), "button"),
        )
    return states.empty(
        "No budgets set",
        "An administrator can add one for each team, and one for the fleet. Forecasts need a week of data.",
    )


@acts_on("/budgets")
async def act(api: Api, query: Query, action: str, values: Values) -> Outcome:
    """Saves the form of the address."""
    return await budget_list.act(api, query, action, values)
