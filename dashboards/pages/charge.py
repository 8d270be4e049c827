"""One charge, opened: the sentence, the prices, the lines it is the sum of, and what another policy would make of it."""

from __future__ import annotations

from collections.abc import Mapping
from decimal import Decimal

from dash import html
from dash.development.base_component import Component

from gpuwatch.dashboards import parts, states, words
from gpuwatch.dashboards.client import Api, Row
from gpuwatch.dashboards.page import page
from gpuwatch.dashboards.pages.finding import fact
from gpuwatch.dashboards.query import Query, job_link

LINES_A_PAGE = 100
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


async def load(api: Api, query: Query) -> Row:
    """The explanation of the charge of the path, a page of its lines."""
    asked = {"policy": preset} if (preset := preset_of(query)) else {}
    return await api.explain(query.path.removeprefix("/charges/"), LINES_A_PAGE, query.get("cursor"), **asked)


def preset_of(query: Query) -> str:
    """The preset that the address asks about."""
    wanted = query.get("policy")
    return wanted if wanted in PRESETS else ""


@page("/charges/*", "Charge", load, filters=(), under="/teams")
def layout(data: Row, query: Query, scheme: str) -> Component:
    """The answer in one sentence, then the proof."""
    choices = [
        (word, query.link(policy=name or None, cursor=None), name == preset_of(query)) for name, word in PRESETS.items()
    ]
    return html.Div(
        [
            parts.link("← Charges", query.link("/teams"), "back"),
            summary(data),
            html.Div("Under another policy", className="label"),
            parts.picks(choices, "Under another policy"),
            under_policy(data, query),
            priced(data),
            lines(data, query),
        ],
        className="column",
    )


def summary(data: Row) -> Component:
    """What it is for, how much, and who decides so."""
    currency, window = str(data.get("currency") or ""), data.get("window") or {}
    frozen: Mapping[str, object] = data.get("closed") or {}
    kind = str(data.get("kind"))
    policies = [str(one.get("name")) for one in data.get("policies") or []]
    head = [
        parts.tag(KINDS.get(kind, kind)),
        html.Span(words.span(window.get("start"), window.get("end")), className="soft"),
    ]
    if frozen:
        head.append(parts.tag(f"Frozen in {frozen.get('period')}", "ok"))
    return html.Section(
        [
            html.Div(head, className="facts"),
            html.H1(words.clip(data.get("summary"), 300)),
            html.Div(
                [
                    fact("Charge", parts.money(data.get("cost"), currency)),
                    fact("Exactly", parts.num(exactly(data.get("cost_exact"), currency))),
                    fact("GPU time", parts.gpu_time(data.get("gpu_seconds"))),
                    fact("Policy", words.clip(", then ".join(policies) or words.MISSING, 80)),
                ],
                className="keyfacts",
            ),
            states.fix(str(data["error"])) if data.get("error") else None,
        ],
        className="card",
    )


def exactly(value: object, currency: str) -> str:
    """Money with all its places."""
    amount = words.number(value)
    return words.MISSING if amount is None else f"{amount.normalize():f} {currency}".strip()


def under_policy(data: Row, query: Query) -> Component | None:
    """What it would be under the preset asked about."""
    if not preset_of(query):
        return None
    then: Row = data.get("under") or {}
    if not then:
        return states.advice("What this charge would be under another policy is not known for it.")
    currency = str(then.get("currency") or data.get("currency") or "")
    gap = words.number(then.get("difference"))
    against = words.change(then.get("cost"), data.get("cost"))
    title = f"Under {PRESETS[preset_of(query)].lower()}: {words.money(then.get('cost'), currency)}"
    text = f"{'+' if gap is not None and gap > 0 else ''}{words.money(gap, currency)}" + (
        f" ({against})" if against else ""
    )
    return parts.card(title, html.P([html.Span("Against what it is: ", className="soft"), parts.num(text, gap)]))


def priced(data: Row) -> Component | None:
    """One row a model, share and price."""
    sums: list[Row] = data.get("sums") or []
    if not sums:
        return None
    columns = [
        parts.Column("GPU model", "wide"),
        parts.Column("Share", "r"),
        parts.Column("GPU-h", "r"),
        parts.Column("Price an hour", "r"),
        parts.Column("Priced", "narrow-hide"),
        parts.Column("Cost", "r"),
    ]
    rows = [
        [
            words.clip(f"{model(one)}{' ' + str(one['mig_profile']) if one.get('mig_profile') else ''}", 50),
            parts.num(str(one.get("share") or words.MISSING)),
            parts.hours(one.get("gpu_seconds")),
            parts.num(price(one.get("price"), one.get("currency")), one.get("price")),
            html.Span(str(one.get("pricing") or words.MISSING).replace("_", " "), className="soft"),
            parts.money(one.get("cost_exact"), str(one.get("currency") or "")),
        ]
        for one in sums
    ]
    title = "It is GPU-hours times a price" if len(sums) == 1 else f"It is the sum over {len(sums)} models and prices"
    return parts.card(title, parts.table(columns, rows, label="By model and price"))


def model(one: Mapping[str, object]) -> str:
    """A model without its maker."""
    return str(one.get("gpu_model") or "Unknown model").removeprefix("NVIDIA ")


def price(value: object, currency: object) -> str:
    """A price of an hour, with its places."""
    amount = words.number(value)
    return (
        words.MISSING
        if amount is None
        else f"{words.SIGNS.get(str(currency), f'{currency} ')}{amount:,.4f}".removesuffix("00")
    )


def lines(data: Row, query: Query) -> Component:
    """Every line that it is the sum of, a page at a time."""
    items: list[Row] = data.get("items") or []
    count = data.get("lines") or len(items)
    if not items:
        return parts.card("No line makes it up", states.advice("It is zero."))
    columns = [
        parts.Column("Device or cause", "wide"),
        parts.Column("When (UTC)", "narrow-hide"),
        parts.Column("Share", "r narrow-hide"),
        parts.Column("Reckoned by", "wide narrow-hide"),
        parts.Column("Measured", "r narrow-hide", hint="Part of the held time in which the device was measured"),
        parts.Column("GPU-h", "r"),
        parts.Column("Cost", "r"),
    ]
    currency = str(data.get("currency") or "")
    rows = [
        [
            what(one, query),
            when(one),
            html.Span([parts.num(str(one["share"])), method(one)]) if one.get("share") else html.Span(),
            reckoned(one),
            parts.percent(one.get("coverage")) if one.get("coverage") is not None else html.Span(),
            parts.hours(one.get("gpu_seconds")),
            parts.num(exact_short(one.get("cost_exact"), currency), one.get("cost_exact")),
        ]
        for one in items
    ]
    note = f"{count} lines; they add up to {exactly(data.get('cost_exact'), currency)}"
    return parts.card(
        "The lines it is the sum of", parts.table(columns, rows, label="Lines"), parts.pager(data, query), note=note
    )


def exact_short(value: object, currency: str) -> str:
    """Money of a line: below a cent with more places."""
    amount = words.number(value)
    if amount is None:
        return words.MISSING
    if amount and abs(amount) < Decimal("0.01"):
        return f"{words.SIGNS.get(currency, f'{currency} ')}{amount:.6f}"
    return words.money(amount, currency)


def what(one: Row, query: Query) -> Component:
    """A segment by its device and job, another line by its sentence."""
    if one.get("what") != "segment":
        return html.Div(words.clip(one.get("text"), 200), className="two-lines", title=str(one.get("text") or ""))
    device = str(one.get("device"))
    job = one.get("job")
    who = parts.link(words.clip(job, 40), job_link(query, one.get("cluster"), str(job))) if job else None
    free = None if job or not one.get("bucket") else parts.bucket_word(str(one["bucket"]))
    return html.Div(
        [
            html.Div(
                words.clip(f"{one.get('node') or ''} {short(device)}".strip(), 60), className="mono", title=device
            ),
            html.Div([*(["job ", who] if who else []), free, conflict(one)], className="soft small"),
        ]
    )


def conflict(one: Row) -> Component | None:
    """A mark where two sources claimed the device at once."""
    return parts.tag("claimed twice", "warn") if one.get("conflict") else None


def short(device: str) -> str:
    """A device by the first part of its UUID, and its slice."""
    gpu, slash, rest = device.partition("/")
    name = "-".join(gpu.split("-")[:2]) if gpu.startswith("GPU-") else gpu
    return f"{name}{slash}{rest}"


def when(one: Row) -> Component:
    """The interval of a segment, or the day of another line."""
    if one.get("start"):
        said = words.span(one.get("start"), one.get("end")).removesuffix(" UTC")
    else:
        said = str(one.get("day") or words.when(one.get("posted")))
    return html.Span(said, className="soft small")


def method(one: Row) -> Component | None:
    """How the share was found: the method, and how it was split among several owners."""
    told = [str(one[name]) for name in ("share_method", "split") if one.get(name)]
    return html.Div(", ".join(told), className="soft small") if told else None


def reckoned(one: Row) -> Component:
    """The formula, the rate with its card and version, the policy with its basis."""
    rate: Mapping[str, object] = one.get("rate") or {}
    policy: Mapping[str, object] = one.get("policy") or {}
    told = []
    if rate:
        version = f" version {rate['card_version']}" if rate.get("card_version") is not None else ""
        told.append(f"{words.clip(rate.get('rate'), 120)} ({rate.get('card')}{version})")
        converted = rate.get("converted")
        if isinstance(converted, dict):
            told.append(
                f"converted from {converted.get('base_price')} {converted.get('base_currency')} at {converted.get('fx_rate')}"
            )
    if policy.get("name"):
        told.append(
            f"policy {words.clip(policy['name'], 60)}" + (f", {policy['payer']}" if policy.get("payer") else "")
        )
    formula = one.get("formula")
    return html.Div(
        [
            html.Div(str(formula), className="mono") if formula else None,
            html.Div("; ".join(told), className="soft small two-lines", title="; ".join(told)),
        ]
    )
