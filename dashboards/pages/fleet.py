"""Fleet: every GPU over time, and its driver, faults and age."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable

from dash import html
from dash.development.base_component import Component

from gpuwatch.dashboards.client import Api, Row
from gpuwatch.dashboards.components import formats, gpu_facts, heat_map, parts
from gpuwatch.dashboards.shell import states
from gpuwatch.dashboards.shell.page import page
from gpuwatch.dashboards.shell.query import Query
from gpuwatch.dashboards.shell.theme import Scheme

PAGE_SIZE = 200
OPEN_ROWS = 20
"""GPUs of the table that are not folded: those with faults are first."""
DEFAULT = "gr_engine_ratio"


async def load(api: Api, query: Query) -> Row:
    """One page of GPUs with one measure."""
    return await api.get(
        "gpus",
        window=query.window,
        measure=measure_of(query),
        cluster=query.get("cluster"),
        pool=query.get("pool"),
        q=query.get("q"),
        limit=PAGE_SIZE,
        cursor=query.get("cursor"),
    )


def measure_of(query: Query) -> str:
    """The measure in the URL."""
    chosen = query.get("measure", DEFAULT)
    return chosen if chosen in heat_map.MEASURES else DEFAULT


@page("/fleet", "Fleet", load, icon="fleet", order=3, filters=("window", "cluster", "pool", "q"), whole_fleet=True)
def layout(data: Row, query: Query, scheme: Scheme) -> Component:
    """Headline numbers, the heat map and the table of GPUs."""
    items: list[Row] = data.get("items") or []
    if not items:
        return html.Div([parts.heading("Fleet"), nothing(query)])
    chosen = measure_of(query)
    choices = [
        (measure.word, query.link(measure=None if name == DEFAULT else name), name == chosen)
        for name, measure in heat_map.MEASURES.items()
    ]
    figure = heat_map.figure(data, scheme)
    drawn = parts.graph(figure, {"height": f"{heat_map.height(items)}px"}) if figure else None
    window: Row = data.get("window") or {}
    note = f"{formats.span(window.get('start'), window.get('end'))}; {hint(chosen)}"
    cards = [
        parts.card(heat_map.MEASURES[chosen].title, guessed(items), drawn, note=note),
        html.Div(listed(items, query), className="opens"),
    ]
    return html.Div(
        [
            parts.heading("Fleet", size(data, query)),
            parts.headlines(numbers(items)),
            parts.picks(choices, "Measure"),
            html.Div(cards if not faulty(items) else cards[::-1], className="column"),
            parts.pager(data, query),
        ]
    )


def size(data: Row, query: Query) -> str:
    """How many GPUs the page shows; the numbers and the table are those of the page."""
    shown = len(data.get("items") or [])
    return f"{shown} GPUs on this page, of more" if data.get("next") or query.get("cursor") else f"{shown} GPUs"


def faulty(items: list[Row]) -> int:
    """How many of the GPUs have a fault."""
    return sum(any(gpu_facts.faults(item)) for item in items)


def listed(items: list[Row], query: Query) -> Component:
    """The GPUs, those with faults first; the rest is folded."""
    count = faulty(items)
    open_rows = min(count, OPEN_ROWS) or OPEN_ROWS
    first, rest = gpu_facts.table(items, query, 0, open_rows), len(items) - open_rows
    more = None
    if rest > 0:
        folded = gpu_facts.table(items, query, open_rows, len(items))
        more = html.Details([html.Summary(f"{rest} more GPUs"), folded])
    title = f"{count} GPU{'s' if count != 1 else ''} with a fault in this window" if count else "GPUs"
    return parts.card(title, first, more, note="Those with faults first; a row opens the GPU")


def guessed(items: list[Row]) -> Component | None:
    """Of which rows it is estimated who held them."""
    count = sum(bool(item.get("estimated")) for item in items)
    if not count:
        return None
    rows = "row" if count == 1 else "rows"
    words = f"{heat_map.ESTIMATED} {count} {rows}: no source says which GPU of the node a job held, so its time is on one that was free."
    return html.P(words, className="soft small")


def hint(measure: str) -> str:
    """How to read the colours."""
    if measure == "health":
        return (
            "green: neither; orange: an XID or a pending row remap; red: a failed row remap or an uncorrected memory "
            "error; grey: free or not measured; PCIe lanes are in the list only"
        )
    return "pale grey: free; dark grey: held, not measured; empty: no records"


def numbers(items: list[Row]) -> list[parts.Headline]:
    """Drivers and faults of the GPUs shown."""
    drivers = Counter(str(item["driver"]) for item in items if item.get("driver"))
    most = ", ".join(f"{name} on {count}" for name, count in drivers.most_common(2))
    unknown = len(items) - sum(drivers.values())
    most += f", not known on {unknown}" if most and unknown else ""
    counts = [
        ("Drivers", len(drivers), most or "No source names a driver"),
        ("GPUs with an XID", _counted(items, "xids"), "in this window"),
        ("Memory errors", _counted(items, "ecc_dbe_count"), "GPUs with uncorrected errors"),
        ("Rows remapped", _counted(items, "remapped_uncorrectable_rows"), "GPUs"),
        ("Narrow PCIe", _counted(items, "pcie_lanes", gpu_facts.is_narrow), "GPUs with fewer lanes than they have"),
    ]
    return [
        parts.Headline(word, parts.num(f"{count:,}"), note=note)
        if count is not None
        else parts.Headline(word, parts.num(formats.MISSING), note="Not measured")
        for word, count, note in counts
    ]


def _counted(items: list[Row], name: str, faulty: Callable[[Row], bool] | None = None) -> int | None:
    """How many of the GPUs have a fault; None where its field was read of none of them."""
    read = [item for item in items if item.get(name) is not None]
    return sum(faulty(item) if faulty else bool(item[name]) for item in read) if read else None


def nothing(query: Query) -> Component:
    """No GPUs match, or none are known."""
    if any(query.get(name) for name in ("cluster", "pool", "q")):
        return states.empty("No GPUs match these filters", "Other GPUs may exist.")
    return states.empty(
        "No GPUs yet",
        "GPUs appear here with their first samples or scheduler records.",
        parts.link("Data quality", query.link("/quality"), "button"),
    )
