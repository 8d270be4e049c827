"""MIG: the compute and memory of each GPU as bars of its slices, with their owners, use and the remainder."""

from __future__ import annotations

from fractions import Fraction

from dash import html
from dash.development.base_component import Component

from gpuwatch.dashboards.client import Api, Row
from gpuwatch.dashboards.components import formats, ledger_math, mig_drawing, parts, proposals, slice_use
from gpuwatch.dashboards.components.slice_use import Slice
from gpuwatch.dashboards.shell import states
from gpuwatch.dashboards.shell.page import page
from gpuwatch.dashboards.shell.query import Query, job_link

GPUS_A_PAGE = 24
SORTS = {"idle": "Most idle first", "node": "By node"}


async def load(api: Api, query: Query) -> Row:
    """A page of GPUs with their slices, and the sums of all."""
    wanted = query.get("sort", "idle")
    sort = wanted if wanted in SORTS else "idle"
    options = {"limit": GPUS_A_PAGE, "cursor": query.get("cursor"), "sort": sort}
    return await api.get("mig/gpus", window=query.window, **options, **query.scope)


@page("/mig", "MIG", load, icon="mig", order=3, filters=("window", "cluster", "team"))
def layout(data: Row, query: Query, scheme: str) -> Component:
    """Totals, then one card per GPU."""
    gpus: list[Row] = data.get("items") or []
    if not gpus:
        return html.Div([parts.heading("How MIG GPUs are used"), nothing(query)])
    total: Row = data.get("total") or {}
    sort = query.get("sort", "idle")
    choices = [(word, query.link(sort=name, cursor=None), sort == name) for name, word in SORTS.items()]
    owners = mig_drawing.colours([str(name) for name in total.get("owners") or []])
    size = [
        proposals.counted(int(total.get(f"{noun}s") or 0), word) for noun, word in (("gpu", "GPU"), ("slice", "slice"))
    ]
    return html.Div(
        [
            parts.heading("How MIG GPUs are used", [f"{', '.join(size)} {query.window_words}", *counted(total)]),
            numbers(total),
            mig_drawing.key(owners),
            parts.picks(choices, "Order"),
            html.Div([gpu_card(gpu, owners, query) for gpu in gpus], className="gpus"),
            parts.pager(data, query),
        ]
    )


def nothing(query: Query) -> Component:
    """No slices."""
    return states.empty(
        "No MIG slices in this window",
        "No GPU was partitioned, or the exporter does not label GPU instances (GPU_I_ID, GPU_I_PROFILE).",
        parts.link("Data quality", query.link("/quality"), "button"),
    )


def numbers(total: Row) -> Component:
    """Cost of the slices, idle and unallocated time, remainder, and how many were measured."""
    currency = str(total.get("currency") or "")
    held, free, known = (slice_use.seconds(total, f"{name}_seconds") for name in ("held", "free", "known"))
    rest = slice_use.share(total.get("remainder_gpus"))
    unknown = parts.num(formats.MISSING, "Only tokens of the whole fleet see it")
    measured = f"{total.get('measured_slices') or 0:,} of {total.get('held_slices') or 0:,}"
    idle = formats.number(total.get("idle_seconds"))
    return parts.headlines(
        [
            parts.Headline(
                "Cost of held slices",
                parts.money(total.get("cost"), currency),
                note=while_free(total.get("free_cost"), currency),
            ),
            parts.Headline("Held idle", parts.percent(ledger_math.ratio(idle, known)), note="of the held slice time"),
            parts.Headline(
                "Unallocated", parts.percent(ledger_math.ratio(free, free + held)), note="of all slice time"
            ),
            parts.Headline(
                "Remainder",
                unknown if rest is None else parts.num(f"{float(rest):.1f} GPUs", str(rest)),
                note="in no slice",
            ),
            parts.Headline("Measured", parts.num(measured), note="held slices"),
        ]
    )


def while_free(cost: object, currency: str) -> str | None:
    """What the slices cost while nobody held them: charges by slice have both."""
    return None if cost is None else f"and {formats.money(cost, currency)} while free"


def counted(total: Row) -> list[Component]:
    """How shares are measured and how slices are split; nothing if unknown."""
    methods, splits = total.get("share_methods") or [], total.get("splits") or []
    notes = []
    if methods:
        notes.append("Shares are measured by " + ", then ".join(slice_use.METHODS.get(name, name) for name in methods))
    if splits:
        notes.append("slices with several owners are " + "; ".join(slice_use.SPLITS.get(name, name) for name in splits))
    return [html.Div("; ".join(notes))] if notes else []


def remainder(rest: Fraction | None) -> Component | None:
    """The last line of the list: the part of the GPU in no slice."""
    if not rest:
        return None
    return html.Li(
        [
            html.Span(className="dot m-rest"),
            html.Span("remainder", className="soft one-line"),
            html.Span("in no slice", className="soft one-line", title="Charged to the platform, or shared by policy"),
            parts.num(str(rest), f"{formats.percent(float(rest))} of the GPU"),
            html.Span(),
        ]
    )


def gpu_card(gpu: Row, owners: dict[str, int], query: Query) -> Component:
    """One GPU: the drawing and the list of its slices, in the order of its memory."""
    rows: list[Row] = gpu.get("slices") or []
    model = str(gpu.get("gpu_model") or "").removeprefix("NVIDIA ")
    if not gpu.get("gpu"):
        return node_card(str(gpu.get("node")), model, in_order(gpu, rows), owners, query)
    ident = str(gpu["gpu"])
    now = in_order(gpu, [row for row in rows if row.get("current")] or rows)
    gone = len(rows) - len(now)
    older = html.P(f"and {gone} slice{'s' if gone > 1 else ''} from earlier layouts", className="soft small")
    rest = slice_use.share(gpu.get("remainder_share"))
    over = f"remainder {formats.percent(float(rest))}" if rest is not None else "remainder unknown"
    return html.Section(
        [
            html.Header(
                [
                    html.H2(
                        parts.link(
                            formats.clip(f"{gpu.get('node')} · {formats.device(ident)}", 44),
                            query.link(f"/mig/{ident}"),
                            title=ident,
                        )
                    ),
                    html.Div(f"{formats.clip(model, 30)}, {over}", className="note"),
                ]
            ),
            mig_drawing.drawing(now, ident, model, owners, rest),
            html.Ul(
                [names(), *(line(part, owners, query) for part in now), remainder(rest)],
                className="tenants",
            ),
            older if gone else None,
        ],
        className="card gpu",
    )


def in_order(gpu: Row, rows: list[Row]) -> list[Slice]:
    """Slices in the order of their place in memory."""
    return sorted((slice_use.summed(gpu, row) for row in rows), key=lambda part: (part.start, part.ident))


def node_card(node: str, model: str, slices: list[Slice], owners: dict[str, int], query: Query) -> Component:
    """The slices of a node that only a scheduler reports."""
    words = (
        f"{formats.clip(model, 30)}, {len(slices)} slices, not measured"
        if model
        else f"{len(slices)} slices, not measured"
    )
    return html.Section(
        [
            html.Header([html.H2(formats.clip(node, 44), title=node), html.Div(words, className="note")]),
            html.P("No exporter reports these slices: which GPU each is on is not known", className="soft small"),
            html.Ul([names(), *(line(part, owners, query) for part in slices)], className="tenants"),
        ],
        className="card gpu",
    )


def names() -> Component:
    """The header of the list."""
    columns = ("Slice", "Held longest by", "Busy", "Cost")
    return html.Li([html.Span(), *(html.Span(word) for word in columns)], className="soft small")


def line(part: Slice, owners: dict[str, int], query: Query) -> Component:
    """A slice in the list below the drawing; a red dot marks one that was mostly idle while held."""
    owner = formats.clip(mig_drawing.short_owner(part.owner), 22) if part.owner else "free"
    label = f"{owner} + {part.others} more" if part.others else owner
    if part.others:
        name = parts.link(label, query.link(f"/mig/{part.ident}"), title=f"{part.words}; all who held it")
    elif part.job:
        name = parts.link(
            label, job_link(query, part.cluster, part.job), title=f"{part.words}; longest: job {part.job}"
        )
    else:
        name = html.Span(label, className="soft one-line", title=part.words)
    use = parts.percent(part.busy) if part.owner else html.Span()
    cost = html.Span()
    if part.owner:
        price = "" if part.price is None else f"{slice_use.price_words(part.price, part.currency)} an hour held"
        cost = html.Span(parts.money(part.cost, part.currency), title=price or None)
    return html.Li(
        [
            html.Span(className=f"dot {mig_drawing.dot(part, owners)}"),
            parts.link(formats.clip(part.instance, 18), query.link(f"/mig/{part.ident}"), "mono one-line", part.ident),
            name,
            use,
            cost,
        ],
        title=part.ident,
    )
