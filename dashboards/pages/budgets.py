"""Budgets: what each team may spend in its period, what is left of it, and how it will end."""

from __future__ import annotations

from decimal import Decimal

from dash import html
from dash.development.base_component import Component

from gpuwatch.dashboards.client import Api, Row
from gpuwatch.dashboards.components import charts, parts
from gpuwatch.dashboards.components import text as components_text
from gpuwatch.dashboards.pages.finding import fact
from gpuwatch.dashboards.shell import states
from gpuwatch.dashboards.shell.page import page
from gpuwatch.dashboards.shell.query import Query
from gpuwatch.dashboards.shell.theme import Scheme

CARDS_A_PAGE = 12
FLEET = "*"
SAMPLE = """team,period,amount,currency,gpu_hours,valid_from,valid_to,alert_at
vision,month,25000,USD,10000,2026-01-01T00:00:00Z,,80 100
*,week,90000,USD,,,,"""
STEPS = f"cat > budgets.csv <<'END'\n{SAMPLE}\nEND\ngpuwatch budget set budgets.csv"


async def load(api: Api, query: Query) -> Row:
    """Each budget in the period that runs now."""
    return await api.budgets(team=query.get("team"))


@page("/budgets", "Budgets", load, icon="budgets", order=7, filters=("team",), under="/teams")
def layout(data: Row, query: Query, scheme: Scheme) -> Component:
    """A sentence about all, then one card a budget: those that will not hold first."""
    items: list[Row] = sorted(data.get("items") or [], key=urgency)
    if not items:
        return html.Div([parts.heading("Do the budgets hold"), nothing(query)])
    over = sum(1 for item in items if verdict(item)[0] == "bad")
    note = f"{len(items)} budget{'s' if len(items) > 1 else ''}, version {data.get('version')} of the file"
    title = f"{over} of {len(items)} budgets will not hold" if over else "All budgets hold so far"
    shown, links = parts.numbered(items, CARDS_A_PAGE, query)
    return html.Div(
        [
            parts.heading(title, note),
            html.Div([card(item, query, scheme) for item in shown], className="budgets"),
            links,
        ]
    )


def urgency(item: Row) -> tuple[Decimal, str]:
    """Largest part of its amount first: of the forecast, else of what is spent; unknown last."""
    amount = components_text.number(item.get("amount"))
    ends = components_text.number((item.get("forecast") or {}).get("amount"))
    spent = ends if ends is not None else components_text.number(item.get("spent"))
    part = spent / amount if spent is not None and amount else Decimal(-1)
    return -part, str(item.get("team"))


def whose(item: Row) -> str:
    """Whose budget it is."""
    return (
        "The fleet" if item.get("team") == FLEET else components_text.clip(components_text.owner(item.get("team")), 40)
    )


def verdict(item: Row) -> tuple[str, str]:
    """(kind of tag, word): passed, will be passed, may be passed, holds, or not known."""
    amount, spent = components_text.number(item.get("amount")), components_text.number(item.get("spent"))
    told = item.get("forecast") or {}
    middle, high = components_text.number(told.get("amount")), components_text.number(told.get("high"))
    if amount is None or spent is None:
        return "plain", "Not known"
    if spent > amount:
        return "bad", "Passed"
    if middle is not None and middle > amount:
        return "bad", "Will be passed"
    if high is not None and high > amount:
        return "warn", "May be passed"
    return ("ok", "Holds") if middle is not None else ("plain", "No forecast yet")


def sentence(item: Row, currency: str) -> str:
    """The card's title: what became of the money."""
    amount = components_text.money(item.get("amount"), currency)
    if item.get("spent") is None:
        return f"{whose(item)}: {amount} for {components_text.period(item.get('period'))}"
    spent = components_text.percent(item.get("spent_ratio"))
    return f"{whose(item)} has spent {spent} of {amount} for {components_text.period(item.get('period'))}"


def card(item: Row, query: Query, scheme: Scheme) -> Component:
    """One budget: the sentence, the bar with the forecast, the numbers, the burn-down."""
    currency, (kind, word) = str(item.get("currency") or ""), verdict(item)
    told = item.get("forecast") or {}
    amount, spent = components_text.number(item.get("amount")), components_text.number(item.get("spent"))
    left = amount - spent if amount is not None and spent is not None else None
    ends = (
        parts.money(told.get("amount"), currency)
        if told
        else parts.num(components_text.MISSING, "Less than a week of days")
    )
    between = (
        html.Span(
            f"{components_text.money(told.get('low'), currency)} to {components_text.money(told.get('high'), currency)}",
            className="soft small",
            title=f"{told.get('level')} of such periods end in between",
        )
        if told
        else None
    )
    team = str(item.get("team"))
    href = query.link("/teams", team=None if team == FLEET else team, window=str(item.get("period")))
    runs_out: parts.Node = (
        parts.num(components_text.day(item["runs_out"])) if item.get("runs_out") else "not in this period"
    )
    if spent is None or (not told and not item.get("runs_out")):
        runs_out = parts.num(components_text.MISSING, "Nothing is foretold yet")
    facts = [
        fact("Spent", parts.money(item.get("spent"), currency)),
        fact("Left", parts.money(left, currency, "num lost" if left is not None and left < 0 else "num")),
        fact("Forecast", html.Div([ends, between])),
        fact("Runs out", runs_out),
    ]
    if item.get("gpu_hours_quota") is not None:
        quota = components_text.short(components_text.number(item["gpu_hours_quota"]) or Decimal(0))
        part = parts.num(components_text.percent(item.get("gpu_hours_ratio")), f"{item.get('gpu_hours')} GPU-hours")
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


def drawn(item: Row, scheme: Scheme) -> list[Component]:
    """The burn-down and what its lines are."""
    window, told = item.get("window") or {}, item.get("forecast") or {}
    figure = charts.burn_down(item, scheme)
    if figure is None:
        return [] if item.get("missing") else [states.advice("No day of it is booked yet.")]
    ahead = f"; dotted: the forecast; shaded: where {told.get('level')} of such periods end" if told else ""
    said = (
        f"What is left at the end of each day{ahead} ({components_text.span(window.get('start'), window.get('end'))})"
    )
    return [parts.graph(figure, charts.SMALL), html.P(said, className="soft small")]


def gauge(item: Row) -> Component:
    """Spent as a bar, the forecast's interval behind it, the amount as a line: all on one scale."""
    told = item.get("forecast") or {}
    amount, spent = (
        components_text.number(item.get("amount")) or Decimal(0),
        components_text.number(item.get("spent")) or Decimal(0),
    )
    low, high = (components_text.number(told.get(name)) for name in ("low", "high"))
    top = max(amount, spent, high or Decimal(0)) * Decimal("1.04") or Decimal(1)

    def at(value: Decimal) -> str:
        return f"{float(max(value, Decimal(0)) / top) * 100:.2f}%"

    over = spent > amount
    pieces: list[Component] = []
    if low is not None and high is not None:
        span = {"left": at(low), "width": at(high - low)}
        pieces.append(html.Span(className="between", style=span, title="Where it will end, as a rule"))
    pieces.append(html.Span(className="done over" if over else "done", style={"width": at(spent)}))
    pieces.append(html.Span(className="mark", style={"left": at(amount)}, title="The budget"))
    said = f"spent {components_text.percent(item.get('spent_ratio'))} of the budget"
    return html.Div(pieces, className="gauge", role="img", **parts.aria(said))


def nothing(query: Query) -> Component:
    """No budget is set, or none of this team."""
    if query.get("team"):
        return states.empty(
            "This team has no budget",
            "Somebody who may administer sets it; the file has a row a team and period.",
            parts.link("All budgets", query.link("/budgets", team=None), "button"),
        )
    return states.empty(
        "No budget is set",
        "Paste this with your teams and amounts. A week of history later each card has a forecast.",
        html.Pre(STEPS, tabIndex="0"),
    )
