"""The lines of a charge: device, time, share, computation and cost."""

from __future__ import annotations

from collections.abc import Sequence
from decimal import Decimal

from dash import html
from dash.development.base_component import Component

from gpuwatch.dashboards.client import Row
from gpuwatch.dashboards.components import formats, parts
from gpuwatch.dashboards.shell.query import Query, job_link

CENT = Decimal("0.01")
MIDNIGHT = "T00:00:00Z"
MEASURED = "Share of the allocated time with measurements"
CAUSES = {
    "idle": "Free",
    "stranded": "Free but stranded",
    "out_of_service": "Out of service",
    "mig_remainder": "MIG remainder",
    "unused": "Held, but not charged under the policy",
    "discount": "Discounts",
    "minimum": "Minimum billing",
    "lost_work": "Work lost with failures",
}
"""Labels of causes; others are names of shared costs."""
PAYERS = {
    "proportional": "in proportion to time held",
    "even": "in equal parts",
    "quota_holder": "to the owner of the quota",
    "fixed": "in fixed shares",
}
"""How a policy distributes a cost."""


def lines(data: Row, query: Query) -> Component:
    """The lines that add up to the charge, one page at a time."""
    items: list[Row] = data.get("items") or []
    count = data.get("lines") or len(items)
    if not items:
        return parts.card(
            "This charge has no lines", html.P("Nothing was held or passed on in this window.", className="soft")
        )
    currency = str(data.get("currency") or "")
    note = f"{count:,} line{'s' if count != 1 else ''}"
    if data.get("cost_exact") is not None:
        note += f"; exact total {exactly(data['cost_exact'], currency)}"
    return parts.card("Lines of this charge", table(items, currency, query), parts.pager(data, query), note=note)


def table(items: Sequence[Row], currency: str, query: Query) -> Component:
    """The lines as a table, without the columns that would be empty."""
    cells: list[tuple[parts.Column, Sequence[parts.Node]]] = [
        (parts.Column("Device or cause", "wide"), [what(one, query) for one in items]),
        (parts.Column(f"When ({formats.zone_word()})", "narrow-hide"), [when(one) for one in items]),
        (parts.Column("Share", "r narrow-hide", hint="Share of the device"), [share(one) for one in items]),
        (parts.Column("Computation", "wide narrow-hide"), [computation(one, currency) for one in items]),
        (parts.Column("Measured", "r narrow-hide", hint=MEASURED), [coverage(one) for one in items]),
        (parts.Column("GPU-h", "r"), [hours(one) for one in items]),
        (parts.Column("Cost", "r"), [cost(one, currency) for one in items]),
    ]
    shown = [(column, made) for column, made in cells if any(cell is not None for cell in made)]
    rows = list(zip(*(made for _, made in shown), strict=True))
    return parts.table([column for column, _ in shown], rows, label="Lines")


def exactly(value: object, currency: str) -> str:
    """Money with all its decimals, at least two."""
    amount = formats.number(value)
    if amount is None:
        return formats.MISSING
    short = amount.normalize()
    exponent = short.as_tuple().exponent
    places = max(2, -exponent if isinstance(exponent, int) else 0)
    return f"{short:,.{places}f} {currency}".strip()


def cost(one: Row, currency: str) -> Component:
    """The cost of a line, with more decimals below a cent."""
    exact = one.get("cost_exact")
    amount = formats.number(exact)
    text = formats.money(amount, currency)
    if amount and abs(amount) < CENT:
        text = f"{'-' if amount < 0 else ''}{formats.SIGNS.get(currency, f'{currency} ')}{abs(amount):.6f}"
    return parts.num(text, "No price for this" if amount is None else exact)


def what(one: Row, query: Query) -> Component:
    """The subject of a line: device and job of a segment, cause and pool of a distributed cost, or else its text."""
    if one.get("what") == "segment":
        return segment(one, query)
    text = str(one.get("text") or "")
    if not one.get("cause"):
        return html.Div(formats.clip(text, 200), className="two-lines", title=text)
    model = str(one.get("gpu_model") or "").removeprefix("NVIDIA ")
    place = ", ".join(formats.clip(name, 40) for name in (model, one.get("pool")) if name)
    return html.Div([html.Div(cause_word(str(one["cause"]))), html.Div(place, className="soft small")], title=text)


def segment(one: Row, query: Query) -> Component:
    """A device with its job, or why it was free."""
    device, job = str(one.get("device")), one.get("job")
    holder: list[parts.Node] = [parts.bucket_word(str(one["bucket"]))] if one.get("bucket") else []
    if job:
        holder = ["job ", parts.link(formats.clip(job, 40), job_link(query, one.get("cluster"), str(job)))]
    node = "" if device.startswith(f"{one.get('node')}/") else str(one.get("node") or "")
    name = formats.clip(f"{node} {formats.device(device)}".strip(), 60)
    return html.Div(
        [
            html.Div(name, className="mono", title=device),
            html.Div([*holder, conflict(one), guessed(one)], className="soft small"),
        ]
    )


def conflict(one: Row) -> Component | None:
    """A tag where two sources reported different owners."""
    return parts.tag("conflicting owners", "warn") if one.get("conflict") else None


def guessed(one: Row) -> Component | None:
    """A tag where no source reports when the job ended."""
    return parts.tag("end estimated", "soft") if one.get("end_estimated") else None


def when(one: Row) -> Component:
    """The interval of a segment, the day of a distributed cost, or when a correction was posted."""
    if one.get("start"):
        text = formats.span(one.get("start"), one.get("end"), zone=False)
    else:
        text = formats.day(one["day"]) if one.get("day") else formats.clock(one.get("posted"))
    return html.Span(text, className="soft small")


def share(one: Row) -> Component | None:
    """The share of the device, how it was measured, and how it was split among several owners."""
    if not one.get("share"):
        return None
    methods = [str(one[name]) for name in ("share_method", "split") if one.get(name)]
    return html.Span([parts.num(str(one["share"])), html.Div(", ".join(methods), className="soft small")])


def coverage(one: Row) -> Component | None:
    """The measured share of the allocated time; empty for unallocated time."""
    return parts.percent(one["coverage"]) if one.get("coverage") is not None else None


def hours(one: Row) -> Component | None:
    """GPU-hours of a device; empty for costs without GPU time."""
    timed = one.get("what") == "segment" or formats.number(one.get("gpu_seconds"))
    return parts.hours(one.get("gpu_seconds")) if timed else None


def computation(one: Row, currency: str) -> Component | None:
    """The formula, the rate with its card and version, and the policy with its discount or distribution."""
    terms = [*rate_words(one.get("rate") or {}), *policy_words(one.get("policy") or {})]
    formula = one.get("formula") or part_words(one.get("dealt") or {}, currency)
    if not terms and not formula:
        return None
    text = "; ".join(terms)
    return html.Div(
        [
            html.Div(str(formula), className="mono") if formula else None,
            html.Div(text, className="soft small two-lines", title=text),
        ]
    )


def rate_words(rate: Row) -> list[str]:
    """The rate, its card and version, and the original currency."""
    if not rate:
        return []
    version = f" version {rate['card_version']}" if rate.get("card_version") is not None else ""
    words = [f"{formats.clip(rate.get('rate'), 120)} ({rate.get('card')}{version})".replace(MIDNIGHT, "")]
    from_ = rate.get("converted")
    if isinstance(from_, dict):
        base = f"{from_.get('base_price')} {from_.get('base_currency')}"
        words.append(f"converted from {base} at {from_.get('fx_rate')}")
    return words


def policy_words(policy: Row) -> list[str]:
    """The policy's name, its discount factor, and how it distributes the cost."""
    if not policy.get("name"):
        return []
    factor = f", times {policy['discount']}" if policy.get("discount") else ""
    payers = PAYERS.get(str(policy.get("payer")), "")
    return [f"policy {formats.clip(policy['name'], 60)}{factor}{f', {payers}' if payers else ''}"]


def part_words(part: Row, currency: str) -> str | None:
    """`51 % of $62.67`: this team's part of a distributed cost."""
    weight, weights = formats.number(part.get("weight")), formats.number(part.get("weights"))
    if weight is None or not weights:
        return None
    return f"{formats.percent(weight / weights)} of {formats.money(part.get('amount'), currency)}"


def cause_word(name: str) -> str:
    """A cause in words; a charge without one is for held time."""
    return "Held time" if name in ("None", "") else CAUSES.get(name, formats.clip(name, 60))
