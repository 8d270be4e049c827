"""Answers to the questions of the decisions page, as cards and tables."""

from __future__ import annotations

from collections.abc import Sequence
from decimal import Decimal

from dash import html
from dash.development.base_component import Component

from gpuwatch.dashboards import parts, states, words
from gpuwatch.dashboards.client import Row
from gpuwatch.dashboards.query import Query, job_link

MAX_ITEMS = 40
MAX_JOBS = 50
MAX_UNSUITED = 10
"""Jobs that are told although nothing can be saved with them: the dearest."""


def assumed(answer: Row) -> Component | None:
    """What the answer takes for granted."""
    notes = [sentence(words.clip(note, 300)) for note in answer.get("notes") or []][:MAX_ITEMS]
    if not notes or not answer.get("items"):
        return None
    return html.Section(
        [html.Header(html.H2("What this takes for granted")), html.Ul([html.Li(note) for note in notes])],
        className="card notes",
    )


def named(item: Row) -> str:
    """What a row is about: the model, and where it stands."""
    model = words.clip(str(item.get("gpu_model") or "GPUs of unknown model").removeprefix("NVIDIA "), 40)
    where = " / ".join(str(item[name]) for name in ("cluster", "pool") if item.get(name))
    return f"{model}, {words.clip(where, 50)}" if where else model


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
    amount = words.number(item.get("saved_by_owning_a_month"))
    return amount is None, -abs(amount or Decimal(0))


def own_card(item: Row) -> Component:
    """One model: the sentence, the axis, the numbers, the sensitivity."""
    currency = str(item.get("currency") or "")
    if item.get("missing"):
        return parts.card(
            f"{named(item)}: not enough is known",
            lacking(str(item["missing"])),
            note=f"{item.get('gpus')} GPUs, {words.percent(item.get('utilisation'))} held",
        )
    owned = item.get("cheaper") == "owned"
    saved = words.number(item.get("saved_by_owning_a_month"))
    sum_ = words.money(abs(saved) if saved is not None else None, currency)
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
        return states.advice(f"{sentence(what)}:", command)
    return states.advice(sentence(text))


def sentence(text: str) -> str:
    """With a capital letter."""
    return text[:1].upper() + text[1:]


def rate(value: object, currency: str) -> Component:
    """A price of an hour: two places, exact on hover."""
    amount = words.number(value)
    sign = words.SIGNS.get(currency, f"{currency} ")
    return parts.num(words.MISSING if amount is None else f"{sign}{amount:,.2f}", f"{value} {currency}")


def months(item: Row) -> Component:
    """Months until the hardware has paid for itself."""
    value = words.number(item.get("payback_months"))
    if value is not None:
        return parts.num(f"{value:,.1f} months", value)
    return parts.num(words.MISSING, item.get("payback_needs")) if item.get("payback_needs") else parts.num("never")


def needs(item: Row) -> Component | str:
    """What the payback is reckoned from, or what it lacks."""
    what, _, command = str(item.get("payback_needs") or "").partition(": ")
    if not what:
        return "from what the cloud would have cost"
    return html.Span([f"needs the {what}: ", html.Span(command, className="mono")])


def axis(item: Row) -> Component:
    """Use from 0 to 100 %: rent is cheaper left of the break-even, owning right of it; a pin shows the measured use."""
    point, used = words.number(item.get("break_even_utilisation")), words.number(item.get("utilisation"))
    edge = min(max(point if point is not None else Decimal(1), Decimal(0)), Decimal(1))
    pin = min(max(used if used is not None else Decimal(0), Decimal(0)), Decimal(1))
    said = f"break-even at {words.percent(point)} use, measured {words.percent(used)}"

    def place(at: Decimal) -> str:
        side = " end" if at > Decimal("0.8") else " start" if at < Decimal("0.2") else ""
        return side

    def left(at: Decimal) -> dict[str, str]:
        return {"left": f"{float(at) * 100:.2f}%"}

    return html.Div(
        [
            html.Div(
                html.Span(f"measured use {words.percent(used)}", className=f"flag{place(pin)}", style=left(pin)),
                className="flags",
            ),
            html.Div(
                [
                    html.Span(
                        "rent" if edge > Decimal("0.12") else "", className="rent", style=parts.width(float(edge))
                    ),
                    html.Span(
                        "own" if edge < Decimal("0.88") else "",
                        className="own" if edge < 1 else "none",
                        style=parts.width(float(1 - edge)),
                    ),
                    html.Span(className="pin", style=left(pin)),
                ],
                className="line",
            ),
            html.Div(
                html.Span(
                    f"break-even {words.percent(point)}"
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
        *(parts.Column(f"{words.percent(use)} use", "r") for use in uses),
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
        words.number(case.get(name)) == words.number(item.get(name)) for name in ("cloud_price", "utilisation")
    )


def saving(value: object, currency: str) -> Component:
    """Money saved; a loss in red."""
    amount = words.number(value)
    return parts.money(value, currency, "num lost" if amount is not None and amount < 0 else "num")


def sums(answer: Row) -> str:
    """All savings in words, by currency."""
    found = [words.money(amount, currency) for currency, amount in (answer.get("saving") or {}).items()]
    return " and ".join(found) or words.MISSING


def job_cell(item: Row, query: Query) -> Component:
    """A job, leading to its page."""
    ident = str(item.get("job"))
    name = str(item.get("name") or ident)
    team = html.Span(words.clip(words.owner(item.get("team")), 30), className="soft")
    return html.Div(
        [parts.link(words.clip(name, 44), job_link(query, item.get("cluster"), ident), "title two-lines", name), team],
        className="jobname",
    )


def spot(answer: Row, query: Query) -> Component:
    """Jobs that spot capacity suits, then those it does not, with why."""
    items: list[Row] = answer.get("items") or []
    unpriced = answer.get("jobs_without_price") or 0
    if not items:
        fix = "Give what spot is cheaper by, or add rates with pricing spot." if unpriced else "No job ran then."
        return states.empty(
            "No job could be judged" if unpriced else "No job in this window",
            f"{counted(unpriced, 'job')} without a spot price. {fix}" if unpriced else fix,
        )
    suited = sum(1 for item in items if item.get("suitable"))
    items = [*items[:suited], *sorted(items[suited:], key=cost_order)[:MAX_UNSUITED]]
    columns = [
        parts.Column("Job", "wide"),
        parts.Column("For spot"),
        parts.Column("Would save", "r"),
        parts.Column("Cost", "r narrow-hide"),
        parts.Column("GPU-h", "r narrow-hide"),
        parts.Column("Longest run", "r narrow-hide"),
        parts.Column("Why", "narrow-hide"),
    ]
    rows = [
        [
            job_cell(item, query),
            parts.tag("Yes", "ok") if item.get("suitable") else parts.tag("No"),
            parts.money(item.get("saving"), str(item.get("currency") or "")) if item.get("suitable") else html.Span(),
            parts.money(item.get("cost"), str(item.get("currency") or "")),
            parts.num(f"{words.number(item.get('gpu_hours')) or 0:,.0f}", item.get("gpu_hours")),
            parts.num(f"{words.number(item.get('longest_run_hours')) or 0:,.1f} h"),
            html.Span(words.clip(item.get("why"), 120), className="soft"),
        ]
        for item in items[:MAX_JOBS]
    ]
    note = f"{suited} of {counted(answer.get('jobs') or 0, 'job')} suited"
    if unpriced:
        note += f"; {unpriced} more without a spot price"
    title = f"Spot capacity would save {sums(answer)} {query.window_words}" if suited else "No job is for spot capacity"
    shown = min(len(items), MAX_JOBS)
    all_ = rest((answer.get("jobs") or 0) > shown, shown, "gpuwatch decide spot")
    return parts.card(title, parts.table(columns, rows, label="Jobs"), all_, note=note)


def cost_order(item: Row) -> Decimal:
    """The dearest first; unknown last."""
    return -(words.number(item.get("cost")) or Decimal(0))


def rest(more: bool, shown: int, command: str) -> Component | None:
    """That there are more jobs than shown, and what lists them."""
    if not more:
        return None
    return html.P(
        [f"{counted(shown, 'job')} of all; the others: ", html.Span(command, className="mono")], className="soft"
    )


def counted(number: int, noun: str) -> str:
    """`1 job`, `2 jobs`."""
    return f"{number:,} {noun}{'s' if number != 1 else ''}"


def slices(answer: Row, query: Query) -> Component:
    """Jobs that held a whole GPU and would fit in a slice."""
    items: list[Row] = answer.get("items") or []
    unjudged = answer.get("jobs_unjudged") or 0
    note = (
        f"{counted(unjudged, 'job')} measured too little to be judged"
        if unjudged
        else "All jobs of one GPU were judged"
    )
    if not items:
        return states.empty("No job would fit in a slice", f"Of those that held one whole GPU. {note}.")
    columns = [
        parts.Column("Job", "wide"),
        parts.Column("Slice"),
        parts.Column("Would save", "r"),
        parts.Column("Cost", "r narrow-hide"),
        parts.Column("Most memory", "r narrow-hide"),
        parts.Column("Most SMs", "r narrow-hide"),
        parts.Column("GPU", "narrow-hide"),
    ]
    rows = [
        [
            job_cell(item, query),
            html.Span(f"{item.get('mig_profile')}", className="mono", title=f"{item.get('share')} of the GPU"),
            parts.money(item.get("saving"), str(item.get("currency") or "")),
            parts.money(item.get("cost"), str(item.get("currency") or "")),
            parts.num(
                f"{(words.number(item.get('memory_mib')) or Decimal(0)) / 1024:,.1f} GiB",
                f"{item.get('memory_mib')} MiB",
            ),
            parts.percent(item.get("sm_active_ratio")),
            html.Span(words.clip(str(item.get("gpu_model") or "").removeprefix("NVIDIA "), 30), className="soft"),
        ]
        for item in items[:MAX_JOBS]
    ]
    title = f"Slices instead of whole GPUs would save {sums(answer)} {query.window_words}"
    more = rest(len(items) > MAX_JOBS, MAX_JOBS, "gpuwatch decide right-sizing")
    return parts.card(title, parts.table(columns, rows, label="Jobs"), more, note=note)


def pools(answer: Row, query: Query) -> Component:
    """What the chosen pools would need as one, by model."""
    items: list[Row] = answer.get("items") or []
    if not items:
        return states.empty("Nothing to put together", "These pools have no GPUs in this window.")
    return html.Div([together(item) for item in items[:MAX_ITEMS]], className="stack")


def together(item: Row) -> Component:
    """One model: nodes that could go, and the use before and after."""
    currency, freed = str(item.get("currency") or ""), item.get("freed_nodes") or 0
    model = words.clip(str(item.get("gpu_model") or "GPUs").removeprefix("NVIDIA "), 40)
    saved = words.money(item.get("saving_a_month"), currency)
    title = (
        f"{model}: {freed} node{'s' if freed != 1 else ''} could go, {saved} a month"
        if freed
        else f"{model}: every node is needed at the peak"
    )
    before, after = item.get("utilisation_before"), item.get("utilisation_after")
    rows = [
        ["As they are", bar(before), parts.percent(before), parts.num(str(item.get("gpus")))],
        [
            "As one",
            bar(after),
            parts.percent(after),
            parts.num(str((item.get("gpus") or 0) - (item.get("freed_gpus") or 0))),
        ],
    ]
    columns = [
        parts.Column(""),
        parts.Column("Held, on average", "grow"),
        parts.Column("", "r"),
        parts.Column("GPUs", "r"),
    ]
    peak = words.number(item.get("peak_gpus")) or Decimal(0)
    held = ", ".join(f"{words.clip(pool, 30)} {count}" for pool, count in (item.get("pools") or {}).items())
    said = f"At most {words.short(peak)} GPUs were held at once; with headroom {item.get('needed_gpus')} are needed"
    return parts.card(
        title, parts.table(columns, rows, label="Use before and after"), html.P(said, className="soft"), note=held
    )


def bar(value: object) -> Component:
    """A ratio as a bar."""
    return parts.bar(float(words.number(value) or 0), "b-owner")
