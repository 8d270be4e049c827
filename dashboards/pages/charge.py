"""One charge, opened: the sentence, the prices, the lines it is the sum of, and what another policy would make of it."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from dataclasses import dataclass
from decimal import Decimal

from dash import html
from dash.development.base_component import Component

from gpuwatch.dashboards.client import Api, ApiFailure, Row
from gpuwatch.dashboards.components import charge_lines, ledger_math, parts
from gpuwatch.dashboards.components import text as components_text
from gpuwatch.dashboards.components.charge_lines import cause_word
from gpuwatch.dashboards.pages.finding import fact
from gpuwatch.dashboards.shell import states
from gpuwatch.dashboards.shell.page import page
from gpuwatch.dashboards.shell.query import Query

LINES_A_PAGE = 50
MAX_POLICIES = 6
"""Policies that were set and can be asked about, beside the presets: the newest."""

PRESETS = {
    "": "As it is",
    "showback": "Pay what is held",
    "pay-for-use": "Pay what is used",
    "share-idle": "Share what is idle",
}
"""Other policies to ask about, by the name of their preset."""

KINDS = {
    "allocated": "Held",
    "platform": "Platform",
    "shared": "Shared cost",
    "correction": "Correction",
}


@dataclass(frozen=True)
class Data:
    """The explanation of a charge, a page of its lines, and names of policies to ask about."""

    told: Row
    names: tuple[str, ...] = ()
    refused: str = ""
    """Why the policy of the address cannot be asked about."""


async def load(api: Api, query: Query) -> Data:
    """The charge of the path."""
    (told, refused), policies = await asyncio.gather(_told(api, query), ledger_math.optional(api.policies()))
    items = sorted((policies or {}).get("items") or [], key=lambda one: str(one.get("valid_from")), reverse=True)
    return Data(told, tuple(dict.fromkeys(str(one.get("name")) for one in items[:MAX_POLICIES])), refused)


async def _told(api: Api, query: Query) -> tuple[Row, str]:
    """The charge under the policy of the address; without one where that is none, and why."""
    charge, policy = query.path.removeprefix("/charges/"), query.get("policy")
    if not policy:
        return await api.explain(charge, LINES_A_PAGE, query.get("cursor")), ""
    try:
        return await api.explain(charge, LINES_A_PAGE, query.get("cursor"), policy=policy), ""
    except ApiFailure as error:
        if error.status != 400:
            raise
        return await api.explain(charge, LINES_A_PAGE, query.get("cursor")), error.message


@page("/charges/*", "Charge", load, filters=(), under="/teams")
def layout(data: Data, query: Query, scheme: str) -> Component:
    """The answer in one sentence, then the proof."""
    told = data.told
    return html.Div(
        [
            parts.link("← Charges", query.link("/teams"), "back"),
            summary(told, query),
            *([] if told.get("kind") == "correction" else what_if(data, query)),
            priced(told),
            charge_lines.lines(told, query),
        ],
        className="column",
    )


def summary(data: Row, query: Query) -> Component:
    """What it is for, how much, and who decides so."""
    currency, window = str(data.get("currency") or ""), data.get("window") or {}
    frozen: Mapping[str, object] = data.get("closed") or {}
    kind = str(data.get("kind"))
    policies = [str(one.get("name")) for one in data.get("policies") or []]
    head: list[Component] = [
        parts.tag(KINDS.get(kind, kind)),
        html.Span(components_text.span(window.get("start"), window.get("end")), className="soft"),
    ]
    if frozen:
        name = str(frozen.get("period"))
        head.append(parts.link(parts.tag(f"Frozen in {name}", "ok"), query.link(f"/periods/{name}")))
    facts = [
        fact("Charge", parts.money(data.get("cost"), currency)),
        fact("GPU time", parts.gpu_time(data.get("gpu_seconds"))),
    ]
    if policies:
        facts.append(fact("Policy", components_text.clip(", then ".join(policies), 80)))
    team = str((data.get("group") or {}).get("team") or "__")
    if not team.startswith("__"):
        facts.append(
            fact("Findings", parts.link("Of this team", query.link("/findings", team=team, state="all"), "more"))
        )
    return html.Section(
        [
            html.Div(head, className="facts"),
            html.H1(components_text.clip(data.get("summary"), 300)),
            html.Div(facts, className="keyfacts"),
            states.fix(str(data["error"])) if data.get("error") else None,
        ],
        className="card",
    )


def what_if(data: Data, query: Query) -> list[Component | None]:
    """The choice of another policy, and what everything would be under it."""
    asked, known = query.get("policy"), {**PRESETS, **{name: name for name in data.names if name not in PRESETS}}
    choices = [
        (components_text.clip(word, 40), query.link(policy=name or None, cursor=None), name == asked)
        for name, word in known.items()
    ]
    head = html.Div(
        [html.H2("What would it be under another policy?"), parts.picks(choices, "Policy")], className="asking"
    )
    if data.refused:
        return [head, states.advice(components_text.sentence(components_text.clip(data.refused, 300)))]
    return [head, under_policy(data.told, known.get(asked, asked)) if asked else None]


def under_policy(data: Row, name: str) -> Component:
    """All that its words pay, now and then, by what for: a policy may pass on what others left."""
    then: Row = data.get("under") or {}
    if not then:
        return states.advice(
            "Nobody knows what this would be: it has no price."
            if data.get("error")
            else "Nobody knows what it would be."
        )
    currency = str(then.get("currency") or data.get("currency") or "")
    against = components_text.change(then.get("cost"), then.get("now"))
    title = (
        f"{components_text.clip(name, 40)}: {components_text.money(then.get('cost'), currency)} instead of "
        f"{components_text.money(then.get('now'), currency)}{f' ({against})' if against else ''}"
    )
    columns = [parts.Column("What for"), *(parts.Column(word, "r") for word in ("Now", "Then", "Difference"))]
    rows = [
        [
            part_word(str(one.get("kind")), one.get("cause")),
            parts.money(one.get("now"), currency),
            parts.money(one.get("cost"), currency),
            parts.more(one.get("difference"), currency),
        ]
        for one in sorted(then.get("parts") or [], key=largest)
    ]
    note = "Everything it pays in this window; nothing is changed"
    return parts.card(title, parts.table(columns, rows, label="By what it is for") if rows else None, note=note)


def largest(one: Mapping[str, object]) -> Decimal:
    """Parts by money, now or then, the largest first."""
    return -max(abs(components_text.number(one.get(name)) or Decimal(0)) for name in ("now", "cost"))


def part_word(kind: str, cause: object) -> str:
    """What a part is paid for."""
    if cause:
        return cause_word(str(cause))
    return "Passed on by policy" if kind == "shared" else KINDS.get(kind, kind)


def priced(data: Row) -> Component | None:
    """One row a model, share and price."""
    sums: list[Row] = data.get("sums") or []
    if not sums:
        return None
    columns = [
        parts.Column("GPU model"),
        parts.Column("Share", "r narrow-hide", hint="Part of a GPU that a slice counts as"),
        parts.Column("GPU-h", "r"),
        parts.Column("Price an hour", "r narrow-hide"),
        parts.Column("Priced", "narrow-hide"),
        parts.Column("Cost", "r"),
    ]
    rows = [
        [
            priced_name(one),
            parts.num(str(one.get("share") or components_text.MISSING)),
            parts.hours(one.get("gpu_seconds")),
            parts.num(price(one.get("price"), one.get("currency")), one.get("price")),
            html.Span(str(one.get("pricing") or components_text.MISSING).replace("_", " "), className="soft"),
            parts.money(one.get("cost_exact"), str(one.get("currency") or "")),
        ]
        for one in sums
    ]
    title = "It is GPU-hours times a price" if len(sums) == 1 else f"It is the sum over {len(sums)} models and prices"
    return parts.card(title, parts.table(columns, rows, label="By model and price"))


def priced_name(one: Mapping[str, object]) -> Component:
    """Model and profile; on a phone its share and price under them."""
    profile = f" {one['mig_profile']}" if one.get("mig_profile") else ""
    told = f"{one.get('share') or components_text.MISSING} × {price(one.get('price'), one.get('currency'))}"
    return html.Div(
        [components_text.clip(f"{model(one)}{profile}", 50), html.Div(told, className="soft small narrow-only")],
    )


def model(one: Mapping[str, object]) -> str:
    """A model without its maker."""
    return str(one.get("gpu_model") or "Unknown model").removeprefix("NVIDIA ")


def price(value: object, currency: object) -> str:
    """A price of an hour, with its places."""
    amount = components_text.number(value)
    return (
        components_text.MISSING
        if amount is None
        else f"{components_text.SIGNS.get(str(currency), f'{currency} ')}{amount:,.4f}".removesuffix("00")
    )
