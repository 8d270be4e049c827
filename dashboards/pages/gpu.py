"""One GPU: its facts, how it was used over time, who held it, and the findings about it."""

from __future__ import annotations

from dash import html
from dash.development.base_component import Component

from gpuwatch.dashboards.client import Api, Row
from gpuwatch.dashboards.components import figures, findings_list, formats, gpu_facts, parts
from gpuwatch.dashboards.components.figures import Figure
from gpuwatch.dashboards.shell import states
from gpuwatch.dashboards.shell.page import page
from gpuwatch.dashboards.shell.query import Query, job_link
from gpuwatch.dashboards.shell.theme import INK, Scheme

OWNERS_SHOWN = 100
RATIOS = {"gr_engine_ratio": "Engine busy", "sm_active_ratio": "SMs active"}


async def load(api: Api, query: Query) -> Row:
    """The GPU in the path."""
    gpu = query.path.removeprefix("/fleet/")
    return await api.get(f"gpus/{gpu}", window=query.window, cluster=query.get("in") or query.get("cluster"))


@page("/fleet/*", "GPU", load, filters=("window",))
def layout(data: Row, query: Query, scheme: Scheme) -> Component:
    """Facts, charts, owners and findings."""
    gpu: Row = data.get("gpu") or {}
    found: list[Row] = data.get("findings") or []
    findings = sorted(found, key=lambda one: one.get("state") == "resolved")
    still = sum(one.get("state") != "resolved" for one in findings)
    cards = [findings_list.card(one, query) for one in findings]
    shown = cards or [states.advice("No rule found anything about this GPU.")]
    return html.Div(
        [
            parts.link("← Fleet", query.link("/fleet"), "back"),
            facts(gpu, query),
            html.Div(
                [
                    html.Div([*charts(data, scheme), owners(data, query)], className="column"),
                    html.Div(
                        [
                            parts.card(
                                f"Findings: {still} open, {len(findings) - still} ended",
                                html.Div(shown, className="stack"),
                            )
                        ],
                        className="column",
                    ),
                ],
                className="two-one",
            ),
        ]
    )


def title(gpu: Row) -> str:
    """`GPU 5 on gpu-node-0104`, as findings call it; its UUID where its index or node is not known."""
    index, node = gpu.get("gpu_index"), gpu.get("node")
    return formats.clip(gpu.get("gpu"), 60) if index is None or not node else f"GPU {index} on {formats.clip(node, 40)}"


def node_link(gpu: Row, query: Query) -> Component:
    """The node, linked to all its GPUs."""
    node = gpu.get("node")
    if not node:
        return html.Span(formats.MISSING)
    return parts.link(formats.clip(node, 40), query.link("/fleet", q=str(node)), title="All GPUs of this node")


def facts(gpu: Row, query: Query) -> Component:
    """Where the GPU is, and its faults."""
    rows: list[tuple[str, parts.Node]] = [
        ("Node", node_link(gpu, query)),
        ("Index", formats.MISSING if gpu.get("gpu_index") is None else str(gpu["gpu_index"])),
        ("Model", formats.clip(gpu.get("model") or formats.MISSING, 40)),
        ("Pool", formats.clip(gpu.get("pool") or formats.MISSING, 32)),
        ("Cluster", formats.clip(gpu.get("cluster") or formats.MISSING, 32)),
        ("Driver", formats.clip(gpu.get("driver") or formats.MISSING, 24)),
        ("XIDs", gpu_facts.xids(gpu)),
        ("Memory errors", gpu_facts.count(gpu.get("ecc_dbe_count"))),
        ("Rows remapped", gpu_facts.rows_remapped(gpu)),
        ("PCIe lanes", gpu_facts.lanes(gpu)),
        ("Seen for", gpu_facts.age(gpu)),
        ("Last reading", formats.when(gpu.get("last_at"))),
    ]
    return html.Section(
        [
            html.H1(title(gpu)),
            html.P(formats.clip(gpu.get("gpu"), 60), className="soft mono"),
            html.Div(
                [html.Div([html.Div(word, className="label"), html.Div(shown)]) for word, shown in rows],
                className="keyfacts",
            ),
        ],
        className="card",
    )


def charts(data: Row, scheme: Scheme) -> list[Component]:
    """Use, temperature and power by step; those without a reading are left out."""
    values: Row = data.get("values") or {}
    times = list(data.get("times") or [])
    groups = (
        ("How the GPU was used", RATIOS, ".0%", 260),
        ("Most memory in use (GiB)", {"fb_used_gib": "Memory"}, ",.0f", 170),
        ("Highest temperature (°C)", {"gpu_temp_celsius": "Temperature"}, ",.0f", 170),
        ("Mean power while held (W)", {"power_watts": "Power"}, ",.0f", 170),
    )
    found = []
    for title, columns, form, height in groups:
        known = {name: word for name, word in columns.items() if any(v is not None for v in values.get(name) or [])}
        if known:
            graph = parts.graph(drawn(times, values, known, form, scheme), {"height": f"{height}px"})
            found.append(parts.card(title, graph, note=f"{formats.zone_word()}; gaps: no readings, or free"))
    if found:
        return found
    return [parts.card("No readings", states.advice("Nothing was read from this GPU in this window."))]


def drawn(times: list[str], values: Row, columns: dict[str, str], form: str, scheme: Scheme) -> Figure:
    """Lines of one unit, from zero."""
    ink = INK[scheme]
    lines = [
        {
            "type": "scatter",
            "mode": "lines",
            "name": word,
            "x": times,
            "y": values[name],
            "connectgaps": False,
            "line": {"color": colour, "width": 1.7, "shape": "hv"},
            "hovertemplate": f"%{{y:{form}}}",
        }
        for (name, word), colour in zip(columns.items(), ink.series, strict=False)
    ]
    many = len(lines) > 1
    axis = {"tickformat": form, **({"range": [-0.01, 1.04]} if form.endswith("%") else {})}
    return {
        "data": lines,
        "layout": figures.layout(
            scheme, yaxis=axis, showlegend=many, legend=figures.legend_above(ink), margin={"t": 28 if many else 8}
        ),
    }


def owners(data: Row, query: Query) -> Component:
    """Who held the GPU, the newest first."""
    found: list[Row] = data.get("owners") or []
    if not found:
        return parts.card("Who held it", states.advice("Nobody held this GPU in this window."))
    sliced = any(one.get("slice") for one in found)
    columns = [
        parts.Column("Job"),
        parts.Column("Team"),
        parts.Column("User", "narrow-hide"),
        *([parts.Column("Slice", "narrow-hide")] if sliced else []),
        parts.Column(f"From ({formats.zone_word()})", "r"),
        parts.Column(f"Until ({formats.zone_word()})", "r narrow-hide"),
    ]
    cluster = (data.get("gpu") or {}).get("cluster")
    rows = []
    for one in found[:OWNERS_SHOWN]:
        job = str(one.get("job") or "")
        rows.append(
            [
                parts.link(formats.clip(one.get("name") or job, 40), job_link(query, cluster, job), title=job),
                parts.team_link(query, one.get("team")),
                formats.clip(formats.owner(one.get("user")), 28),
                *([f"{one.get('profile') or ''} {one.get('slice') or ''}".strip()] if sliced else []),
                *(
                    html.Span(formats.clock(one.get(name)), className="num nowrap")
                    for name in ("started_at", "ended_at")
                ),
            ]
        )
    note = f"the newest {OWNERS_SHOWN}" if len(found) > OWNERS_SHOWN else None
    return parts.card("Who held it", parts.table(columns, rows, label="Owners"), note=note)
