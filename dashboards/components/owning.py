"""Whether owning pays: a card a model with its break-even, its payback and how both move with price and use."""

from __future__ import annotations

from collections.abc import Sequence
from decimal import Decimal

from dash import html
from dash.development.base_component import Component

from gpuwatch.dashboards.client import Row
from gpuwatch.dashboards.components import parts
from gpuwatch.dashboards.components import text as components_text
from gpuwatch.dashboards.shell import states
from gpuwatch.dashboards.shell.query import Query

MAX_ITEMS = 40
RENT_MIN, OWN_MAX, PIN_MAX = Decimal("0.12"), Decimal("0.88"), Decimal("0.85")
"""Where a side of the axis has room for its word, and up to where the pin leaves the right end free."""


def named(item: Row) -> str:
    """What a row is about: the model, and where it stands."""
    model = components_text.clip(str(item.get("gpu_model") or "GPUs of unknown model").removeprefix("NVIDIA "), 40)
    where = " / ".join(str(item[name]) for name in ("cluster", "pool") if item.get(name))
    return f"{model}, {components_text.clip(where, 50)}" if where else model


def owning(answer: Row, query: Query) -> Component:
    """A card a cluster, pool and model, with the break-even on an axis of use."""
    items: list[Row] = answer.get("items") or []
    if not items:
        return states.empty("Nothing was owned in this window", "No GPU has books then. Choose another window.")
    shown = [item for item in items if query.get("cluster") in ("", item.get("cluster"))]
    shown = sorted(shown, key=most_money)[:MAX_ITEMS]
    return html.Div([own_card(item) for item in shown], className="stack")


def most_money(item: Row) -> tuple[bool, Decimal]:
    """By the money at stake, the most first; unknown last."""
    amount = components_text.number(item.get("saved_by_owning_a_month"))
    return amount is None, -abs(amount or Decimal(0))


def own_card(item: Row) -> Component:
    """One model: the sentence, the axis, the numbers, the sensitivity."""
    currency = str(item.get("currency") or "")
    if item.get("missing"):
        return parts.card(
            f"{named(item)}: not enough is known",
            lacking(str(item["missing"])),
            note=f"{item.get('gpus')} GPUs, {components_text.percent(item.get('utilisation'))} held",
        )
    owned = item.get("cheaper") == "owned"
    saved = components_text.number(item.get("saved_by_owning_a_month"))
    sum_ = components_text.money(abs(saved) if saved is not None else None, currency)
    title = f"{named(item)}: owning {'saves' if owned else 'costs'} {sum_} a month{'' if owned else ' more'}"
    price = f"{item.get('cloud_price_from') or ''}"
    facts = [
        ("Owned, an hour", rate(item.get("owned_price"), currency), "at full use"),
        ("Cloud, an hour", rate(item.get("cloud_price"), currency), price),
        ("Break-even", parts.percent(item.get("break_even_utilisation")), "use from which owning is cheaper"),
        ("Payback", months(item), needs(item)),
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


def lacking(text: str) -> Component:
    """What is missing: a sentence, and the command behind its colon where there is one."""
    what, _, command = text.partition(": ")
    if command.startswith("gpuwatch "):
        return states.advice(f"{components_text.sentence(what)}:", command)
    return states.advice(components_text.sentence(text))


def rate(value: object, currency: str) -> Component:
    """A price of an hour: two places, exact on hover."""
    amount = components_text.number(value)
    sign = components_text.SIGNS.get(currency, f"{currency} ")
    return parts.num(components_text.MISSING if amount is None else f"{sign}{amount:,.2f}", f"{value} {currency}")


def months(item: Row) -> Component:
    """Months until the hardware has paid for itself."""
    value = components_text.number(item.get("payback_months"))
    if value is not None:
        return parts.num(f"{value:,.1f} months", value)
    return (
        parts.num(components_text.MISSING, item.get("payback_needs"))
        if item.get("payback_needs")
        else parts.num("never")
    )


def needs(item: Row) -> Component | str:
    """What the payback is reckoned from, or what it lacks."""
    what, _, command = str(item.get("payback_needs") or "").partition(": ")
    if not what:
        return "from what the cloud would have cost"
    return html.Span([f"needs the {what}: ", html.Span(command, className="mono")])


def axis(item: Row) -> Component:
    """Use from 0 to 100 %: rent is cheaper left of the break-even, owning right of it; a pin shows the measured use."""
    point, used = (
        components_text.number(item.get("break_even_utilisation")),
        components_text.number(item.get("utilisation")),
    )
    edge = min(max(point if point is not None else Decimal(1), Decimal(0)), Decimal(1))
    pin = min(max(used if used is not None else Decimal(0), Decimal(0)), Decimal(1))
    said = f"break-even at {components_text.percent(point)} use, measured {components_text.percent(used)}"

    def place(at: Decimal) -> str:
        side = " end" if at > Decimal("0.8") else " start" if at < Decimal("0.2") else ""
        return side

    def left(at: Decimal) -> dict[str, str]:
        return {"left": f"{float(at) * 100:.2f}%"}

    return html.Div(
        [
            html.Div(
                html.Span(
                    f"measured use {components_text.percent(used)}", className=f"flag{place(pin)}", style=left(pin)
                ),
                className="flags",
            ),
            html.Div(
                [
                    html.Span("rent" if edge > RENT_MIN else "", className="rent", style=parts.width(float(edge))),
                    html.Span(
                        "own" if edge < OWN_MAX else "",
                        className="none" if edge >= 1 else "own before" if pin > PIN_MAX else "own",
                        style=parts.width(float(1 - edge)),
                    ),
                    html.Span(className="pin", style=left(pin)),
                ],
                className="line",
            ),
            html.Div(
                html.Span(
                    f"break-even {components_text.percent(point)}"
                    + (": never at this price" if point is not None and point > 1 else ""),
                    className=f"flag soft{place(edge)}",
                    style=left(edge),
                ),
                className="flags",
            ),
        ],
        className="useaxis",
        role="img",
        **parts.aria(said),
    )


def sensitivity(cases: Sequence[Row], item: Row, currency: str) -> Component | None:
    """Money a month that owning saves, by cloud price (rows) and use (columns)."""
    uses = list(dict.fromkeys(str(case.get("utilisation")) for case in cases))
    prices = list(dict.fromkeys(str(case.get("cloud_price")) for case in cases))
    if not cases:
        return None
    unpaid = bool(item.get("payback_needs"))
    known = {(str(case.get("cloud_price")), str(case.get("utilisation"))): case for case in cases}
    columns = [
        parts.Column("Cloud price"),
        *(parts.Column(f"{components_text.percent(use)} use", "r") for use in uses),
        parts.Column("Break-even", "r narrow-hide"),
        *([] if unpaid else [parts.Column("Payback at the measured use", "r narrow-hide")]),
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
                        saving((case or {}).get("saved_by_owning_a_month"), currency),
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
            html.H3("What owning saves a month, should price or use change"),
            parts.table(columns, rows, label="Sensitivity"),
        ]
    )


def as_it_is(case: Row | None, item: Row) -> bool:
    """Whether a case has the price and the use of today."""
    return case is not None and all(
        components_text.number(case.get(name)) == components_text.number(item.get(name))
        for name in ("cloud_price", "utilisation")
    )


def saving(value: object, currency: str) -> Component:
    """Money saved; a loss in red."""
    amount = components_text.number(value)
    return parts.money(value, currency, "num lost" if amount is not None and amount < 0 else "num")
