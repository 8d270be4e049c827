"""Lines of a charge: device, time, share, how it was reckoned, and what each adds."""

from __future__ import annotations

from collections.abc import Sequence
from decimal import Decimal

from dash import html
from dash.development.base_component import Component

from gpuwatch.dashboards.client import Row
from gpuwatch.dashboards.components import parts
from gpuwatch.dashboards.components import text as components_text
from gpuwatch.dashboards.shell.query import Query, job_link

CENT = Decimal("0.01")
MIDNIGHT = "T00:00:00Z"
MEASURED = "Part of the held time in which the device was measured"
CAUSES = {
    "idle": "Free",
    "stranded": "Free but stranded",
    "out_of_service": "Out of service",
    "mig_remainder": "MIG remainder",
    "unused": "Held, and not charged by the basis",
    "discount": "Discounts",
    "minimum": "Minimum billing",
    "lost_work": "Work lost with failures",
}
"""Causes in words; others are names of shared costs."""
PAYERS = {
    "proportional": "by the time held",
    "even": "in even parts",
    "quota_holder": "to whose quota it is",
    "fixed": "in fixed parts",
}
"""How a policy deals a cost."""


def lines(data: Row, query: Query) -> Component:
    """Every line that it is the sum of, a page at a time."""
    items: list[Row] = data.get("items") or []
    count = data.get("lines") or len(items)
    if not items:
        return parts.card("No line adds to it", html.P("Nothing was held or passed on then.", className="soft"))
    currency = str(data.get("currency") or "")
    cells: list[tuple[parts.Column, Sequence[parts.Node]]] = [
        (parts.Column("Device or cause", "wide"), [what(one, query) for one in items]),
        (parts.Column("When (UTC)", "narrow-hide"), [when(one) for one in items]),
        (parts.Column("Share", "r narrow-hide", hint="Part of the device"), [share(one) for one in items]),
        (parts.Column("How", "wide narrow-hide"), [reckoned(one, currency) for one in items]),
        (parts.Column("Measured", "r narrow-hide", hint=MEASURED), [coverage(one) for one in items]),
        (parts.Column("GPU-h", "r"), [hours(one) for one in items]),
        (parts.Column("Cost", "r"), [cost(one, currency) for one in items]),
    ]
    shown = [(column, made) for column, made in cells if any(cell is not None for cell in made)]
    rows = list(zip(*(made for _, made in shown), strict=True))
    note = f"{count:,} line{'s' if count != 1 else ''}"
    if data.get("cost_exact") is not None:
        note += f"; exactly {exactly(data['cost_exact'], currency)} in all"
    table = parts.table([column for column, _ in shown], rows, label="Lines")
    return parts.card("The lines it is the sum of", table, parts.pager(data, query), note=note)


def exactly(value: object, currency: str) -> str:
    """Money with all its places, and at least its cents."""
    amount = components_text.number(value)
    if amount is None:
        return components_text.MISSING
    short = amount.normalize()
    exponent = short.as_tuple().exponent
    places = max(2, -exponent if isinstance(exponent, int) else 0)
    return f"{short:,.{places}f} {currency}".strip()


def cost(one: Row, currency: str) -> Component:
    """Money of a line; below a cent with more places."""
    exact = one.get("cost_exact")
    amount = components_text.number(exact)
    said = components_text.money(amount, currency)
    if amount and abs(amount) < CENT:
        said = f"{'-' if amount < 0 else ''}{components_text.SIGNS.get(currency, f'{currency} ')}{abs(amount):.6f}"
    return parts.num(said, "No price for this" if amount is None else exact)


def what(one: Row, query: Query) -> Component:
    """A segment by its device and job, what a policy deals by its cause and place, another line by its sentence."""
    if one.get("what") == "segment":
        return segment(one, query)
    text = str(one.get("text") or "")
    if not one.get("cause"):
        return html.Div(components_text.clip(text, 200), className="two-lines", title=text)
    model = str(one.get("gpu_model") or "").removeprefix("NVIDIA ")
    place = ", ".join(components_text.clip(name, 40) for name in (model, one.get("pool")) if name)
    return html.Div([html.Div(cause_word(str(one["cause"]))), html.Div(place, className="soft small")], title=text)


def segment(one: Row, query: Query) -> Component:
    """A device, and its job or why it was free."""
    device, job = str(one.get("device")), one.get("job")
    who: list[parts.Node] = [parts.bucket_word(str(one["bucket"]))] if one.get("bucket") else []
    if job:
        who = ["job ", parts.link(components_text.clip(job, 40), job_link(query, one.get("cluster"), str(job)))]
    node = "" if device.startswith(f"{one.get('node')}/") else str(one.get("node") or "")
    name = components_text.clip(f"{node} {components_text.device(device)}".strip(), 60)
    return html.Div(
        [
            html.Div(name, className="mono", title=device),
            html.Div([*who, conflict(one)], className="soft small"),
        ]
    )


def conflict(one: Row) -> Component | None:
    """A mark where two sources claimed the device at once."""
    return parts.tag("claimed twice", "warn") if one.get("conflict") else None


def when(one: Row) -> Component:
    """The interval of a segment, the day of what a policy deals, or when a correction was posted."""
    if one.get("start"):
        said = components_text.span(one.get("start"), one.get("end")).removesuffix(" UTC")
    else:
        said = (
            components_text.day(one["day"])
            if one.get("day")
            else components_text.when(one.get("posted")).removesuffix(" UTC")
        )
    return html.Span(said, className="soft small")


def share(one: Row) -> Component | None:
    """The part of the device, what it was counted by, and how it was split among several owners."""
    if not one.get("share"):
        return None
    told = [str(one[name]) for name in ("share_method", "split") if one.get(name)]
    return html.Span([parts.num(str(one["share"])), html.Div(", ".join(told), className="soft small")])


def coverage(one: Row) -> Component | None:
    """How much of the held time was measured; nothing where nobody held it."""
    return parts.percent(one["coverage"]) if one.get("coverage") is not None else None


def hours(one: Row) -> Component | None:
    """GPU-hours of a device; nothing for money that no time makes."""
    timed = one.get("what") == "segment" or components_text.number(one.get("gpu_seconds"))
    return parts.hours(one.get("gpu_seconds")) if timed else None


def reckoned(one: Row, currency: str) -> Component | None:
    """The formula, the rate with its card and version, the policy with its discount or its way of dealing."""
    told = [*rate_words(one.get("rate") or {}), *policy_words(one.get("policy") or {})]
    formula = one.get("formula") or part_words(one.get("dealt") or {}, currency)
    if not told and not formula:
        return None
    said = "; ".join(told)
    return html.Div(
        [
            html.Div(str(formula), className="mono") if formula else None,
            html.Div(said, className="soft small two-lines", title=said),
        ]
    )


def rate_words(rate: Row) -> list[str]:
    """The rate, its card and version, and what it was converted from."""
    if not rate:
        return []
    version = f" version {rate['card_version']}" if rate.get("card_version") is not None else ""
    told = [f"{components_text.clip(rate.get('rate'), 120)} ({rate.get('card')}{version})".replace(MIDNIGHT, "")]
    from_ = rate.get("converted")
    if isinstance(from_, dict):
        base = f"{from_.get('base_price')} {from_.get('base_currency')}"
        told.append(f"converted from {base} at {from_.get('fx_rate')}")
    return told


def policy_words(policy: Row) -> list[str]:
    """The policy by name, with the factor of a discount and how a cost is dealt."""
    if not policy.get("name"):
        return []
    factor = f", times {policy['discount']}" if policy.get("discount") else ""
    dealt = PAYERS.get(str(policy.get("payer")), "")
    return [f"policy {components_text.clip(policy['name'], 60)}{factor}{f', {dealt}' if dealt else ''}"]


def part_words(dealt: Row, currency: str) -> str | None:
    """`51 % of $62.67`: the part of an amount that a policy deals."""
    weight, weights = components_text.number(dealt.get("weight")), components_text.number(dealt.get("weights"))
    if weight is None or not weights:
        return None
    return f"{components_text.percent(weight / weights)} of {components_text.money(dealt.get('amount'), currency)}"


def cause_word(name: str) -> str:
    """Why money is there, in words; without a cause it is for time that was held."""
    return "Held time" if name in ("None", "") else CAUSES.get(name, components_text.clip(name, 60))
