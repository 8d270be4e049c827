"""Own or rent: one card per model with break-even, payback and a sensitivity table."""

from __future__ import annotations

from collections.abc import Sequence
from decimal import Decimal

from dash import html
from dash.development.base_component import Component

from gpuwatch.dashboards.client import Row
from gpuwatch.dashboards.components import formats, parts
from gpuwatch.dashboards.shell import states
from gpuwatch.dashboards.shell.query import Query

MAX_ITEMS = 40
OPEN_ITEMS = 2
"""Cards that are not folded."""
RENT_MIN, OWN_MAX, PIN_MAX = Decimal("0.12"), Decimal("0.88"), Decimal("0.85")
"""Bounds within which the labels of the axis have enough space."""


def title_of(item: Row) -> str:
    """The GPU model with its cluster and pool."""
    model = formats.clip(str(item.get("gpu_model") or "GPUs of unknown model").removeprefix("NVIDIA "), 40)
    where = " / ".join(str(item[name]) for name in ("cluster", "pool") if item.get(name))
    return f"{model}, {formats.clip(where, 50)}" if where else model


def owning(answer: Row, query: Query) -> Component:
    """One card per cluster, pool and model, with the break-even on a utilization axis."""
    items: list[Row] = answer.get("items") or []
    if not items:
        return states.empty(
            "Nothing was owned in this window", "The ledger has no GPUs in this window. Choose another window."
        )
    shown = [item for item in items if query.get("cluster") in ("", item.get("cluster"))]
    shown = sorted(shown, key=most_money)[:MAX_ITEMS]
    rest = [own_card(item) for item in shown[OPEN_ITEMS:]]
    more = (
        html.Details([html.Summary(f"{len(rest)} more, with less money at stake"), html.Div(rest, className="stack")])
        if rest
        else None
    )
    known = [item for item in shown if formats.number(item.get("saved_by_owning_a_month")) is not None]
    return html.Div(
        [table(known) if known else None, *(own_card(item) for item in shown[:OPEN_ITEMS]), more], className="stack"
    )


def table(items: Sequence[Row]) -> Component:
    """Those with a break-even, the most money first."""
    columns = [
        parts.Column("GPUs", "wide"),
        parts.Column("Number", "r narrow-hide"),
        parts.Column("Use", "r", hint="Measured: how much of the time they were held"),
        parts.Column("Break-even", "r", hint="The use above which keeping them is cheaper"),
        parts.Column("Saves a month", "r", hint="Keeping them, against renting them in the cloud"),
    ]
    places = formats.money_places(item.get("saved_by_owning_a_month") for item in items)
    rows: list[list[parts.Node]] = [
        [
            place(item),
            parts.num(str(item.get("gpus") or formats.MISSING)),
            parts.percent(item.get("utilisation")),
            parts.percent(item.get("break_even_utilisation")),
            saving(item.get("saved_by_owning_a_month"), str(item.get("currency") or ""), places),
        ]
        for item in items
    ]
    return parts.plain(parts.table(columns, rows, label="Own or rent"))


def place(item: Row) -> Component:
    """The model, with its cluster and pool below."""
    model, _, where = title_of(item).partition(", ")
    return html.Div([html.Div(model), html.Div(where, className="soft small")])


def most_money(item: Row) -> tuple[bool, Decimal]:
    """Sort key: the most money at stake first, unknown last."""
    amount = formats.number(item.get("saved_by_owning_a_month"))
    return amount is None, -abs(amount or Decimal(0))


def own_card(item: Row) -> Component:
    """One model: summary, axis, numbers and sensitivity table."""
    currency = str(item.get("currency") or "")
    if item.get("missing"):
        return parts.card(
            f"{title_of(item)}: not enough data",
            states.advice(f"Missing: {item['missing']}"),
            note=f"{item.get('gpus')} GPUs, {formats.percent(item.get('utilisation'))} held",
        )
    kept, reserved = item.get("cheaper") != "cloud", is_reserved(item)
    noun, verb = ("Reserved", "reserving") if reserved else ("Owned", "owning")
    saved = formats.number(item.get("saved_by_owning_a_month"))
    sum_ = formats.money(abs(saved) if saved is not None else None, currency)
    title = f"{title_of(item)}: {verb} {'saves' if kept else 'costs'} {sum_}{'' if kept else ' more'} per month"
    price = f"{item.get('cloud_price_from') or ''}"
    facts = [
        (f"{noun}, per hour", rate(item.get("owned_price"), currency), "at full utilization"),
        ("Cloud, per hour", rate(item.get("cloud_price"), currency), price),
        ("Break-even", parts.percent(item.get("break_even_utilisation")), f"utilization above which {verb} is cheaper"),
        *([] if reserved else [("Payback", months(item), needs(item))]),
    ]
    return parts.card(
        title,
        axis(item),
        html.Div(
            [
                html.Div([html.Div(label, className="label"), html.Div(value), html.Div(note, className="soft small")])
                for label, value, note in facts
            ],
            className="keyfacts",
        ),
        sensitivity(item.get("sensitivity") or [], item, currency),
        note=f"{item.get('gpus')} GPUs",
    )


def is_reserved(item: Row) -> bool:
    """Whether a commitment pays for these GPUs: nothing was bought that could pay back."""
    return "reserved" in str(item.get("paid") or "")


def rate(value: object, currency: str) -> Component:
    """A price per hour with two decimals, exact on hover."""
    amount = formats.number(value)
    sign = formats.SIGNS.get(currency, f"{currency} ")
    return parts.num(formats.MISSING if amount is None else f"{sign}{amount:,.2f}", formats.exact(value, currency))


def months(item: Row) -> Component:
    """Months until the hardware has paid for itself."""
    value = formats.number(item.get("payback_months"))
    if value is not None:
        return parts.num(f"{value:,.1f} months", value)
    return parts.num(formats.MISSING, item.get("payback_needs")) if item.get("payback_needs") else parts.num("never")


def needs(item: Row) -> Component | str:
    """What the payback is computed from, or what is missing for it."""
    what, _, command = str(item.get("payback_needs") or "").partition(": ")
    if not what:
        return "compared with the cloud price"
    where = parts.link("Owned hardware", Query().link("/owned")) if command else ""
    return html.Span([f"needs the {what}", ": " if command else "", where])


def axis(item: Row) -> Component:
    """Utilization from 0 to 100 %: renting is cheaper left of the break-even, owning right of it; a pin marks the
    measured utilization.
    """
    point, used = (
        formats.number(item.get("break_even_utilisation")),
        formats.number(item.get("utilisation")),
    )
    edge = min(max(point if point is not None else Decimal(1), Decimal(0)), Decimal(1))
    pin = min(max(used if used is not None else Decimal(0), Decimal(0)), Decimal(1))
    word = "reserve" if is_reserved(item) else "own"
    label = f"break-even at {formats.percent(point)} utilization, measured {formats.percent(used)}"

    def place(at: Decimal) -> str:
        side = " end" if at > Decimal("0.8") else " start" if at < Decimal("0.2") else ""
        return side

    def left(at: Decimal) -> dict[str, str]:
        return {"left": f"{float(at) * 100:.2f}%"}

    return html.Div(
        [
            html.Div(
                html.Span(
                    f"measured utilization {formats.percent(used)}", className=f"flag{place(pin)}", style=left(pin)
                ),
                className="flags",
            ),
            html.Div(
                [
                    html.Span("rent" if edge > RENT_MIN else "", className="rent", style=parts.width(float(edge))),
                    html.Span(
                        word if edge < OWN_MAX else "",
                        className="none" if edge >= 1 else "own before" if pin > PIN_MAX else "own",
                        style=parts.width(float(1 - edge)),
                    ),
                    html.Span(className="pin", style=left(pin)),
                ],
                className="line",
            ),
            html.Div(
                html.Span(
                    f"break-even {formats.percent(point)}"
                    + (": not reachable at this price" if point is not None and point > 1 else ""),
                    className=f"flag soft{place(edge)}",
                    style=left(edge),
                ),
                className="flags",
            ),
        ],
        className="useaxis",
        role="img",
        **parts.aria(label),
    )


def sensitivity(cases: Sequence[Row], item: Row, currency: str) -> Component | None:
    """Monthly saving from owning, by cloud price (rows) and utilization (columns)."""
    uses = list(dict.fromkeys(str(case.get("utilisation")) for case in cases))
    prices = list(dict.fromkeys(str(case.get("cloud_price")) for case in cases))
    if not cases:
        return None
    unpaid = is_reserved(item) or bool(item.get("payback_needs"))
    places = formats.money_places(case.get("saved_by_owning_a_month") for case in cases)
    known = {(str(case.get("cloud_price")), str(case.get("utilisation"))): case for case in cases}
    columns = [
        parts.Column("Cloud price"),
        *(parts.Column(f"{formats.percent(use)} use", "r") for use in uses),
        parts.Column("Break-even", "r narrow-hide"),
        *([] if unpaid else [parts.Column("Payback at measured utilization", "r narrow-hide")]),
    ]
    rows = []
    for price in prices:
        of = [known.get((price, use)) for use in uses]
        middle = of[len(of) // 2] or {}
        rows.append(
            [
                rate(price, currency),
                *(
                    html.Span(
                        saving((case or {}).get("saved_by_owning_a_month"), currency, places),
                        className="strong" if as_it_is(case, item) else None,
                    )
                    for case in of
                ),
                parts.percent(middle.get("break_even_utilisation")),
                *([] if unpaid else [months(middle)]),
            ]
        )
    return html.Div(
        [
            html.H3(
                f"Monthly saving from {'reserving' if is_reserved(item) else 'owning'} if price or utilization change"
            ),
            parts.table(columns, rows, label="Sensitivity"),
        ]
    )


def as_it_is(case: Row | None, item: Row) -> bool:
    """Whether a case has today's price and utilization."""
    return case is not None and all(
        formats.number(case.get(name)) == formats.number(item.get(name)) for name in ("cloud_price", "utilisation")
    )


def saving(value: object, currency: str, places: int) -> Component:
    """Money saved, with as many decimals as the rest of its table; a loss in red."""
    amount = formats.number(value)
    if amount is None:
        return parts.money(value, currency)
    sign = formats.SIGNS.get(currency, f"{currency} " if currency else "")
    text = f"{'-' if amount < 0 else ''}{sign}{formats.fixed(abs(amount), places)}"
    return parts.num(text, formats.exact(value, currency), "num lost" if amount < 0 else "num")
