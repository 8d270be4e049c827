"""What is known of GPUs: place, model, driver, faults and age, as a table or as facts of one GPU."""

from __future__ import annotations

from datetime import datetime
from urllib.parse import quote

from dash import html
from dash.development.base_component import Component

from gpuwatch.dashboards.client import Row
from gpuwatch.dashboards.components import formats, parts
from gpuwatch.dashboards.shell.query import Query

XIDS_SHOWN = 4
PENDING = "A reset of the GPU finishes the remap of its rows"


def table(items: list[Row], query: Query, start: int, end: int) -> Component:
    """One row per GPU, from `start` to `end` in the order of faults; the first cell opens its page."""
    columns = [
        parts.Column("Node"),
        parts.Column("GPU", "narrow-hide"),
        parts.Column("Model", "narrow-hide"),
        parts.Column("Driver", "narrow-hide"),
        parts.Column("XIDs", "", hint="Reported in the window"),
        parts.Column("Memory errors", "r narrow-hide", hint="Uncorrected ECC errors"),
        parts.Column("Rows remapped", "r narrow-hide"),
        parts.Column("PCIe lanes", "r narrow-hide", hint="In use, of those that the GPU has"),
        parts.Column("Seen for", "r narrow-hide", hint="From the first to the last reading"),
        parts.Column(f"Last reading ({formats.zone_word()})", "r narrow-hide"),
    ]
    rows = [
        [
            html.Div(
                [
                    parts.link(
                        formats.clip(item.get("node") or "no node", 40), gpu_link(query, item), "title row-link nowrap"
                    ),
                    html.Div(" · ".join([name(item), *fault_words(item)]), className="soft small narrow-only"),
                ]
            ),
            gpu_name(item),
            html.Span(
                formats.clip(str(item.get("model") or formats.MISSING).removeprefix("NVIDIA "), 24), className="nowrap"
            ),
            formats.clip(item.get("driver") or formats.MISSING, 20),
            xids(item),
            count(item.get("ecc_dbe_count")),
            rows_remapped(item),
            lanes(item),
            age(item),
            html.Span(formats.clock(item.get("last_at")), className="num nowrap"),
        ]
        for item in sorted(items, key=faults, reverse=True)[start:end]
    ]
    return parts.table(columns, rows, label="GPUs")


def faults(item: Row) -> tuple[bool, bool, bool, bool]:
    """What is wrong with a GPU, the worst first."""
    broken = bool(item.get("row_remap_failed") or item.get("ecc_dbe_count"))
    return broken, bool(item.get("xids")), bool(item.get("row_remap_pending")), is_narrow(item)


def gpu_link(query: Query, item: Row) -> str:
    """The page of a GPU."""
    return query.link(
        f"/fleet/{quote(str(item.get('gpu')), safe='/')}", **{"in": str(item.get("cluster") or "") or None}
    )


def gpu_name(item: Row) -> Component:
    """The GPU of a row, with its slices in a second line."""
    short, mark, more = name(item).partition(" · GPU-")
    words, dot, slices = more.partition(" · ")
    under = html.Div(slices, className="soft small") if dot else None
    return html.Div([html.Span(f"{short}{mark}{words}", className="nowrap"), under], title=str(item.get("gpu")))


def name(item: Row) -> str:
    """`3 · GPU-1c1abed6 · 7 slices`."""
    index = item.get("gpu_index")
    slices = int(item.get("slices") or 0)
    words = ["" if index is None else str(index), formats.device(str(item.get("gpu")))]
    words += [f"{slices} slices"] if slices else []
    return " · ".join(word for word in words if word)


def xids(item: Row) -> Component:
    """The XIDs that the GPU reported in the window."""
    if item.get("xids") is None:
        return parts.num(formats.MISSING, "No source reads XIDs of this GPU")
    codes = [str(code) for code in item["xids"]]
    if not codes:
        return html.Span("none", className="soft")
    more = f" +{len(codes) - XIDS_SHOWN}" if len(codes) > XIDS_SHOWN else ""
    return html.Span([parts.tag(f"XID {', '.join(codes[:XIDS_SHOWN])}{more}", "bad")], title=", ".join(codes))


def rows_remapped(item: Row) -> Component:
    """Remapped rows, with what is pending or failed."""
    found = item.get("remapped_uncorrectable_rows")
    words = [
        word for field, word in (("row_remap_failed", "failed"), ("row_remap_pending", "pending")) if item.get(field)
    ]
    tags: list[parts.Node] = []
    for word in words:
        tags += [" ", parts.tag(word, "bad" if word == "failed" else "warn")]
    return html.Span([count(found), *tags], className="nowrap", title=PENDING if "pending" in words else None)


def lanes(item: Row) -> Component:
    """PCIe lanes in use of those that the GPU has; fewer are a fault."""
    now, most = item.get("pcie_lanes"), item.get("pcie_lanes_max")
    if now is None:
        return parts.num(formats.MISSING)
    words = f"{now}" if most is None else f"{now} of {most}"
    return parts.tag(words, "bad") if is_narrow(item) else parts.num(words)


def fault_words(item: Row) -> list[str]:
    """What is wrong with a GPU beside its XIDs, in words."""
    return [
        *(["row remap failed"] if item.get("row_remap_failed") else []),
        *(["row remap pending"] if item.get("row_remap_pending") else []),
        *([f"{count_word(item['ecc_dbe_count'])} memory errors"] if formats.number(item.get("ecc_dbe_count")) else []),
        *([f"PCIe {item.get('pcie_lanes')} of {item.get('pcie_lanes_max')} lanes"] if is_narrow(item) else []),
    ]


def count_word(value: object) -> str:
    """A whole number in words."""
    found = formats.number(value)
    return formats.MISSING if found is None else f"{found:,.0f}"


def count(value: object) -> Component:
    """A whole number; a dash where it is not known."""
    return parts.num(count_word(value))


def is_narrow(item: Row) -> bool:
    """Whether the GPU's PCIe link has fewer lanes than it could."""
    lanes, most = formats.number(item.get("pcie_lanes")), formats.number(item.get("pcie_lanes_max"))
    return lanes is not None and most is not None and 0 < lanes < most


def age(item: Row) -> Component:
    """How long the GPU has been seen."""
    first, last = formats.moment(item.get("first_at")), formats.moment(item.get("last_at"))
    if not isinstance(first, datetime) or not isinstance(last, datetime):
        return parts.num(formats.MISSING, "No readings")
    return parts.num(
        formats.duration(formats.number((last - first).total_seconds())), formats.when(item.get("first_at"))
    )
