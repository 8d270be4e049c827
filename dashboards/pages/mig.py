"""MIG: the compute and memory of each GPU as bars of its slices, with their owners, use and the remainder."""

from __future__ import annotations

from dataclasses import dataclass
from decimal import Decimal
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
MAX_PAGES = 10
"""API pages to read, so that all slices of a GPU are known."""


SORTS = {"idle": "Most idle first", "node": "By node"}


@dataclass(frozen=True)
class Data:
    """All tenancies of slices, and their GPUs. `cut`: there are more than were read."""

    rows: list[Row]
    gpus: list[Row]
    cut: bool


async def load(api: Api, query: Query) -> Data:
    """All slices in the window, up to MAX_PAGES pages."""
    rows: list[Row] = []
    gpus: dict[str, Row] = {}
    cursor = ""
    for _ in range(MAX_PAGES):
        answer = await api.slices(query.window, cursor, **query.scope)
        rows += answer.get("items") or []
        for gpu in answer.get("gpus") or []:
            gpus.setdefault(str(gpu.get("gpu")), gpu)
        cursor = str(answer.get("next") or "")
        if not cursor:
            break
    return Data(rows, list(gpus.values()), bool(cursor))


@page("/mig", "MIG", load, icon="mig", order=3, filters=("window", "cluster", "team"))
def layout(data: Data, query: Query, scheme: str) -> Component:
    """Totals, then one card per GPU."""
    if not data.rows:
        return html.Div([parts.heading("How MIG GPUs are used"), nothing(query)])
    held, sort = slice_use.slices(data.rows), query.get("sort", "idle")
    unseen = unmeasured(data.rows)
    gpus = sorted([*data.gpus, *unseen], key=lambda gpu: gpu_order(gpu, held, sort))
    shown, links = parts.numbered(gpus, GPUS_A_PAGE, query)
    choices = [(word, query.link(sort=name, page=None), sort == name) for name, word in SORTS.items()]
    count = sum(len(of) for of in held.values())
    owners = mig_drawing.colours([part for of in held.values() for part in of])
    return html.Div(
        [
            parts.heading(
                "How MIG GPUs are used",
                [
                    f"{proposals.counted(len(data.gpus), 'GPU')}, {proposals.counted(count, 'slice')} {query.window_words}",
                    *counted(held),
                ],
            ),
            numbers(data, [part for of in held.values() for part in of]),
            mig_drawing.key(owners),
            parts.picks(choices, "Order"),
            html.Div(
                [gpu_card(gpu, held.get(str(gpu.get("gpu")), []), owners, query) for gpu in shown], className="gpus"
            ),
            links,
            states.advice("There are more slices than shown here. Filter by cluster or team.") if data.cut else None,
        ]
    )


def nothing(query: Query) -> Component:
    """No slices."""
    return states.empty(
        "No MIG slices in this window",
        "No GPU was partitioned, or the exporter does not label GPU instances (GPU_I_ID, GPU_I_PROFILE).",
        parts.link("Data quality", query.link("/quality"), "button"),
    )


def unmeasured(rows: list[Row]) -> list[Row]:
    """The nodes with slices that only a scheduler reports, each in place of their GPUs, which are not known."""
    nodes = {slice_use.place(row): row for row in rows if row.get("gpu") is None}
    return [
        {name: row.get(name) for name in ("node", "cluster", "gpu_model")} | {"gpu": node, "node_only": True}
        for node, row in nodes.items()
    ]


def gpu_order(gpu: Row, held: dict[str, list[Slice]], sort: str) -> tuple[Decimal, str]:
    """Sort key: most idle seconds first, or node and id."""
    name = f"{gpu.get('node')}/{gpu.get('gpu')}"
    if sort == "node":
        return (Decimal(0), name)
    idle = sum((part.idle_s or Decimal(0) for part in held.get(str(gpu.get("gpu")), [])), Decimal(0))
    return (-idle, name)


def numbers(data: Data, slices: list[Slice]) -> Component:
    """Cost of the slices, idle and unallocated time, remainder, and how many were measured."""
    currency = next((part.currency for part in slices if part.currency), "")
    held = sum((part.held_s for part in slices), Decimal(0))
    known = sum((part.held_s for part in slices if part.idle_s is not None), Decimal(0))
    free = sum((part.free_s for part in slices), Decimal(0))
    idle = formats.total(part.idle_s for part in slices)
    taken = [part for part in slices if part.owner]
    measured = sum(1 for part in taken if part.busy is not None)
    rest = sum((slice_use.share(gpu.get("remainder_share")) or Fraction(0) for gpu in data.gpus), start=Fraction(0))
    return parts.headlines(
        [
            parts.Headline(
                "Cost of held slices",
                parts.money(formats.total(part.cost for part in slices), currency),
                note=while_free(slices, currency),
            ),
            parts.Headline("Held idle", parts.percent(ledger_math.ratio(idle, known)), note="of the held slice time"),
            parts.Headline(
                "Unallocated", parts.percent(ledger_math.ratio(free, free + held)), note="of all slice time"
            ),
            parts.Headline("Remainder", parts.num(f"{float(rest):.1f} GPUs", str(rest)), note="in no slice"),
            parts.Headline("Measured", parts.num(f"{measured} of {len(taken)}"), note="held slices"),
        ]
    )


def while_free(slices: list[Slice], currency: str) -> str | None:
    """What the slices cost while nobody held them: charges by slice have both."""
    spare = [part.free_cost for part in slices if part.free_cost is not None]
    return f"and {formats.money(sum(spare, Decimal(0)), currency)} while free" if spare else None


def counted(held: dict[str, list[Slice]]) -> list[Component]:
    """How shares are measured and how slices are split; nothing if unknown."""
    slices = [part for of in held.values() for part in of]
    methods = dict.fromkeys(name for part in slices for name in part.method.split(", ") if name)
    splits = dict.fromkeys(name for part in slices for name in part.split.split(", ") if name)
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


def gpu_card(gpu: Row, slices: list[Slice], owners: dict[str, int], query: Query) -> Component:
    """One GPU: the drawing and the list of its slices."""
    ident, model = str(gpu.get("gpu")), str(gpu.get("gpu_model") or "").removeprefix("NVIDIA ")
    if gpu.get("node_only"):
        return node_card(ident, model, slices, owners, query)
    newest = {str(name) for name in gpu.get("slices") or []}
    now = [part for part in slices if part.ident in newest] if newest else slices
    gone = len(slices) - len(now)
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
