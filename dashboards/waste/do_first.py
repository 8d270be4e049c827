"""What to do first: a line per cause, with its money a day, whom to ask, and a link to the action."""

from __future__ import annotations

from collections.abc import Sequence
from decimal import Decimal
from typing import Any

from dash import html
from dash.development.base_component import Component

from gpuwatch.dashboards.client import Row
from gpuwatch.dashboards.components import findings_list, formats, parts
from gpuwatch.dashboards.shell import states
from gpuwatch.dashboards.shell.query import Query, finding_link
from gpuwatch.dashboards.waste.morning import team_home

SHOWN = 5
ASKED = NODES_SHOWN = 2
"""Owners named in a line."""

PLACES = {
    "stranded": ("/capacity", "Show moves"),
    "hoarded": ("/reclaim", "Reclaim"),
    "below_roof": ("/findings", "Show findings"),
    "unobserved": ("/quality", "Show the fix"),
}
"""Of a bucket: the page to act on it, and the label of the link."""
OWNERS_SHOWN = 3
"""Teams of a loss that are named with their part of it."""


ORDER_WORDS = "By cost a day and certainty; what has no cost follows."


def card(actions: Sequence[Row], query: Query, title: str = "Do first") -> Component:
    """The first actions, the largest loss always among them."""
    more = parts.link("All findings", query.link("/findings"), "more")
    if not actions:
        return parts.card(title, states.advice("No open findings, and nothing was avoidable."), note=more)
    lines = [html.Li(line(action, query)) for action in chosen(actions)]
    return parts.card(
        title, html.P(ORDER_WORDS, className="soft small"), html.Ol(lines, className="do-first"), note=more
    )


def chosen(actions: Sequence[Row]) -> list[Row]:
    """The first SHOWN actions; the largest loss takes the last place if it ranks lower."""
    shown = list(actions[:SHOWN])
    if not any(action.get("loss") for action in shown):
        shown[SHOWN - 1 :] = [action for action in actions if action.get("loss")][:1] or shown[SHOWN - 1 :]
    return shown


def line(action: Row, query: Query) -> Component:
    """One action."""
    loss: Row = action.get("loss") or {}
    label, href = target(action, query)
    many = int(action.get("findings") or 0)
    facts: list[Any] = [parts.severity(action.get("severity"))]
    if loss:
        facts.append(html.Span(loss_words(loss, action, query), className="strong"))
    facts += held_by(loss, action, query) or asked(action, query)
    if many > 1:
        facts.append(html.Span(f"{many} findings", className="soft"))
    if about := action.get("subject"):
        facts.append(findings_list.subject({**action, "cluster": about.get("cluster")}, query, 36))
    if not about or about.get("kind") not in ("gpu", "node", "team", "pool"):
        facts += where(action)
    return html.Div(
        [
            html.Div(
                [
                    parts.link(formats.clip(action.get("title"), 90), href, "title"),
                    advice(action),
                    html.Div(facts, className="facts"),
                ],
                className="what",
            ),
            html.Div([money(action), parts.link(label, href, "more")], className="money"),
        ],
        className="finding",
    )


def advice(action: Row) -> Component:
    """What to do; for a loss that no finding explains a line for each kind of work."""
    text = str(action.get("remedy") or "")
    if cause := cause_of(action):
        text = f"{cause} {text}"
    if (action.get("loss") or {}).get("parts") and not action.get("findings"):
        return html.Div(formats.clip(text, 480), title=action.get("summary"))
    return html.Div(formats.clip(text, 220), className="two-lines", title=action.get("summary") or text)


def cause_of(action: Row) -> str:
    """The largest cause of stranded GPUs by the name that reports give it; empty for anything else."""
    if (action.get("loss") or {}).get("bucket") != "stranded":
        return ""
    first, dot, _ = str(action.get("summary") or "").partition(". ")
    return f"{first}." if dot else ""


def held_by(loss: Row, action: Row, query: Query) -> list[Component]:
    """The teams of a loss, each with its part; empty for one that is not divided, and on the page of a team."""
    sizes: dict[str, Decimal] = {}
    found: list[Row] = loss.get("parts") or []
    if query.get("team") or not found or loss.get("bucket") in ("stranded", "unobserved"):
        return []
    priced, currency = all(one.get("cost") is not None for one in found), str(action.get("currency") or "")
    for one in found:
        size = formats.number(one.get("cost" if priced else "gpu_seconds")) or Decimal(0)
        sizes[str(one.get("team"))] = sizes.get(str(one.get("team")), Decimal(0)) + size
    named: list[Any] = []
    for team in sorted(sizes, key=lambda name: -sizes[name])[:OWNERS_SHOWN]:
        words = formats.rounded(sizes[team], currency) if priced else formats.gpu_time(sizes[team])
        named += [", " if named else "", *owner({"team": team}, query), f" {words}"]
    rest = max(int((action.get("owners") or {}).get("total") or 0), len(sizes)) - OWNERS_SHOWN
    return [html.Span([*named, f" and {rest} more" if rest > 0 else ""])]


def where(action: Row) -> list[Component]:
    """The nodes of the findings."""
    nodes: list[str] = action.get("nodes") or []
    if not nodes:
        return []
    rest = int(action.get("nodes_total") or 0) - min(len(nodes), NODES_SHOWN)
    more = f" and {rest} more node{'s' if rest > 1 else ''}" if rest > 0 else ""
    return [
        html.Span(f"on {', '.join(formats.clip(node, 30) for node in nodes[:NODES_SHOWN])}{more}", className="soft")
    ]


def target(action: Row, query: Query) -> tuple[str, str]:
    """The label and the address of an action."""
    keys, rules = action.get("keys") or [], action.get("detectors") or []
    if action.get("findings") == 1 and keys:
        return "Open", finding_link(query, str(keys[0]))
    if len(rules) == 1:
        return "Open all", query.link("/findings", detector=str(rules[0]))
    if not (loss := action.get("loss")):
        return "Open all", query.link("/findings")
    bucket = str(loss.get("bucket"))
    if bucket in PLACES:
        page, label = PLACES[bucket]
        return label, query.link(page)
    return "Show jobs", query.link("/jobs", sort=bucket)


def loss_words(loss: Row, action: Row, query: Query) -> str:
    """`Largest loss: $2,764 in the last 7 days`."""
    cost = formats.number(loss.get("cost"))
    size = (
        formats.gpu_time(loss.get("gpu_seconds"))
        if cost is None
        else formats.rounded(cost, str(action.get("currency") or ""))
    )
    lead = "Not measured" if loss.get("bucket") == "unobserved" else "Largest loss"
    return f"{lead}: {size} {query.window_words}"


def money(action: Row) -> Component | None:
    """Money a day, or so far where a finding has not lasted a day; GPU-hours without a price. What could be saved is no loss.
    Work is lost once: it has no amount a day.
    """
    if lost := action.get("lost_work"):
        return lost_money(lost, str(action.get("currency") or ""))
    if (action.get("loss") or {}).get("bucket") == "unobserved":
        return html.Span("no waste is known", className="soft")
    span = "a day" if (rate := action.get("day_rate") is not False) or action.get("saves") else "so far"
    kind = "a_day" if rate or action.get("saves") else "so_far"
    cost, currency = formats.number(action.get(f"cost_{kind}")), str(action.get("currency") or "")
    hours, risk = formats.number(action.get(f"gpu_hours_{kind}")), formats.number(action.get("at_risk_gpu_hours_a_day"))
    if cost is not None:
        shade = "num" if action.get("saves") else "num lost"
        shown = parts.num(formats.rounded(cost, currency), formats.exact(cost, currency), shade)
        lead = "could save " if action.get("saves") else ""
        return html.Span(
            [html.Span(lead, className="soft") if lead else None, shown, html.Span(f" {span}", className="soft")]
        )
    if hours:
        return html.Span([parts.num(f"{formats.short(hours)} GPU-h"), html.Span(f" {span}", className="soft")])
    if risk:
        count = int(risk / 24)
        return html.Span(f"{count:,} GPU{'' if count == 1 else 's'} at risk")
    return None


def lost_money(lost: Row, currency: str) -> Component:
    """`lost $6,475`, or GPU time without a price."""
    cost = formats.number(lost.get("cost"))
    if cost is None:
        shown = parts.num(formats.gpu_time(lost.get("gpu_seconds")), None, "num lost")
    else:
        shown = parts.num(formats.rounded(cost, currency), formats.exact(cost, currency), "num lost")
    return html.Span([html.Span("lost ", className="soft"), shown])


def asked(action: Row, query: Query) -> list[Component]:
    """Whom to ask: the owners with the largest part."""
    owners: Row = action.get("owners") or {}
    items: list[Row] = owners.get("items") or []
    if query.get("team") and not any(item.get("user") for item in items):
        return []  # the page is of that team
    if not items:
        return []
    names: list[Any] = []
    for item in items[:ASKED]:
        names += [", "] if names else []
        names += owner(item, query)
    rest = int(owners.get("total") or 0) - len(items[:ASKED])
    return [html.Span(["Ask ", *names, f" and {rest} more" if rest > 0 else ""])]


def owner(item: Row, query: Query) -> list[Any]:
    """A team with its user, as a link to the team."""
    team, user = str(item.get("team") or ""), item.get("user")
    if team == "__platform__":
        return ["the platform team"]
    if team == "__unallocated__" or not team:
        found: list[Any] = [parts.link("no team assigned", query.link("/quality"))]
    else:
        found = [parts.link(formats.clip(team, 28), team_home(query, team))]
    return [*found, f" ({formats.clip(user, 28)})"] if user else found
