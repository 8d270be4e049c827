"""One charge in detail: summary, prices, lines, and the result under another policy."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from dataclasses import dataclass
from decimal import Decimal

from dash import html
from dash.development.base_component import Component

from gpuwatch.dashboards.client import Api, ApiFailure, Row
from gpuwatch.dashboards.components import charge_lines, formats, ledger_math, parts
from gpuwatch.dashboards.components.charge_lines import cause_word
from gpuwatch.dashboards.pages.finding import fact
from gpuwatch.dashboards.shell import states
from gpuwatch.dashboards.shell.page import page
from gpuwatch.dashboards.shell.query import Query

LINES_A_PAGE = 50
MAX_POLICIES = 6
"""The newest policies offered for comparison, in addition to the presets."""

PRESETS = {
    "": "Current",
    "showback": "Pay for allocation",
    "pay-for-use": "Pay for use",
    "share-idle": "Share idle cost",
}
"""Preset policies offered for comparison."""

KINDS = {
    "allocated": "Held",
    "platform": "Platform",
    "shared": "Shared cost",
    "correction": "Correction",
}


@dataclass(frozen=True)
class Data:
    """The explanation of a charge, a page of its lines, and names of policies to compare with."""

    charge: Row
    names: tuple[str, ...] = ()
    refused: str = ""
    """Why the policy in the URL cannot be compared."""


async def load(api: Api, query: Query) -> Data:
    """The charge in the path."""
    (charge, refused), policies = await asyncio.gather(_explain(api, query), ledger_math.optional(api.policies()))
    items = sorted((policies or {}).get("items") or [], key=lambda one: str(one.get("valid_from")), reverse=True)
    return Data(charge, tuple(dict.fromkeys(str(one.get("name")) for one in items[:MAX_POLICIES])), refused)


async def _explain(api: Api, query: Query) -> tuple[Row, str]:
    """The charge under the policy in the URL, or, if that policy is invalid, as it is, with the error."""
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
    """The summary, then the details."""
    charge = data.charge
    return html.Div(
        [
            parts.link("← Charges", query.link("/teams"), "back"),
            summary(charge, query),
            *([] if charge.get("kind") == "correction" else what_if(data, query)),
            priced(charge),
            charge_lines.lines(charge, query),
        ],
        className="column",
    )


def summary(data: Row, query: Query) -> Component:
    """What the charge is for, its cost and its policy."""
    currency, window = str(data.get("currency") or ""), data.get("window") or {}
    frozen: Mapping[str, object] = data.get("closed") or {}
    kind = str(data.get("kind"))
    policies = [str(one.get("name")) for one in data.get("policies") or []]
    head: list[Component] = [
        parts.tag(KINDS.get(kind, kind)),
        html.Span(formats.span(window.get("start"), window.get("end")), className="soft"),
    ]
    if frozen:
        name = str(frozen.get("period"))
        head.append(parts.link(parts.tag(f"Frozen in {name}", "ok"), query.link(f"/periods/{name}")))
    facts = [
        fact("Charge", parts.money(data.get("cost"), currency)),
        fact("GPU time", parts.gpu_time(data.get("gpu_seconds"))),
    ]
    if policies:
        facts.append(fact("Policy", formats.clip(", then ".join(policies), 80)))
    team = str((data.get("group") or {}).get("team") or "__")
    if not team.startswith("__"):
        facts.append(
            fact(
                "Findings", parts.link("Findings of this team", query.link("/findings", team=team, state="all"), "more")
            )
        )
    return html.Section(
        [
            html.Div(head, className="facts"),
            html.H1(formats.clip(data.get("summary"), 300)),
            html.Div(facts, className="keyfacts"),
            states.fix(str(data["error"])) if data.get("error") else None,
        ],
        className="card",
    )


def what_if(data: Data, query: Query) -> list[Component | None]:
    """The choice of another policy, and the result under it."""
    chosen, known = query.get("policy"), {**PRESETS, **{name: name for name in data.names if name not in PRESETS}}
    choices = [
        (formats.clip(word, 40), query.link(policy=name or None, cursor=None), name == chosen)
        for name, word in known.items()
    ]
    head = html.Div([html.H2("Compare with another policy"), parts.picks(choices, "Policy")], className="asking")
    if data.refused:
        return [head, states.advice(formats.sentence(formats.clip(data.refused, 300)))]
    return [head, under_policy(data.charge, known.get(chosen, chosen)) if chosen else None]


def under_policy(data: Row, name: str) -> Component:
    """The total now and under the other policy, by kind of cost, since a policy may redistribute shared costs."""
    then: Row = data.get("under") or {}
    if not then:
        return states.advice(
            "The result is unknown because this charge has no price." if data.get("error") else "The result is unknown."
        )
    currency = str(then.get("currency") or data.get("currency") or "")
    against = formats.change(then.get("cost"), then.get("now"))
    title = (
        f"{formats.clip(name, 40)}: {formats.money(then.get('cost'), currency)} instead of "
        f"{formats.money(then.get('now'), currency)}{f' ({against})' if against else ''}"
    )
    columns = [parts.Column("Kind of cost"), *(parts.Column(word, "r") for word in ("Now", "Then", "Difference"))]
    rows = [
        [
            part_word(str(one.get("kind")), one.get("cause")),
            parts.money(one.get("now"), currency),
            parts.money(one.get("cost"), currency),
            parts.more(one.get("difference"), currency),
        ]
        for one in sorted(then.get("parts") or [], key=largest)
    ]
    note = "All costs in this window. A comparison only; nothing changes."
    return parts.card(title, parts.table(columns, rows, label="By kind of cost") if rows else None, note=note)


def largest(one: Mapping[str, object]) -> Decimal:
    """Sort key: largest amount, now or then, first."""
    return -max(abs(formats.number(one.get(name)) or Decimal(0)) for name in ("now", "cost"))


def part_word(kind: str, cause: object) -> str:
    """The label of a kind of cost."""
    if cause:
        return cause_word(str(cause))
    return "Passed on by policy" if kind == "shared" else KINDS.get(kind, kind)


def priced(data: Row) -> Component | None:
    """One row per model, share and price."""
    sums: list[Row] = data.get("sums") or []
    if not sums:
        return None
    columns = [
        parts.Column("GPU model"),
        parts.Column("Share", "r narrow-hide", hint="Fraction of a GPU that a slice counts as"),
        parts.Column("GPU-h", "r"),
        parts.Column("Price per hour", "r narrow-hide"),
        parts.Column("Pricing", "narrow-hide"),
        parts.Column("Cost", "r"),
    ]
    rows = [
        [
            priced_name(one),
            parts.num(str(one.get("share") or formats.MISSING)),
            parts.hours(one.get("gpu_seconds")),
            parts.num(price(one.get("price"), one.get("currency")), one.get("price")),
            html.Span(str(one.get("pricing") or formats.MISSING).replace("_", " "), className="soft"),
            parts.money(one.get("cost_exact"), str(one.get("currency") or "")),
        ]
        for one in sums
    ]
    title = "GPU-hours times price" if len(sums) == 1 else f"Sum of {len(sums)} models and prices"
    return parts.card(title, parts.table(columns, rows, label="By model and price"))


def priced_name(one: Mapping[str, object]) -> Component:
    """Model and profile, with share and price below on a phone."""
    profile = f" {one['mig_profile']}" if one.get("mig_profile") else ""
    details = f"{one.get('share') or formats.MISSING} × {price(one.get('price'), one.get('currency'))}"
    return html.Div(
        [formats.clip(f"{model(one)}{profile}", 50), html.Div(details, className="soft small narrow-only")],
    )


def model(one: Mapping[str, object]) -> str:
    """A GPU model without the vendor name."""
    return str(one.get("gpu_model") or "Unknown model").removeprefix("NVIDIA ")


def price(value: object, currency: object) -> str:
    """A price per hour, with up to four decimals."""
    amount = formats.number(value)
    return (
        formats.MISSING
        if amount is None
        else f"{formats.SIGNS.get(str(currency), f'{currency} ')}{amount:,.4f}".removesuffix("00")
    )
