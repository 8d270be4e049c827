"""The links of one node: a matrix of its GPUs, and the jobs that a failed link would touch."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from dash import html
from dash.development.base_component import Component

from gpuwatch.dashboards.client import Row
from gpuwatch.dashboards.components import formats, parts
from gpuwatch.dashboards.components.capacity_moves import count
from gpuwatch.dashboards.shell import states
from gpuwatch.dashboards.shell.query import Query, job_link

LEVELS = {
    "NV": "NVLink",
    "C2C": "NVLink-C2C",
    "PIX": "One PCIe switch",
    "PXB": "Several PCIe switches, one host bridge",
    "PHB": "Host bridge of one CPU",
    "NODE": "One NUMA node, across host bridges",
    "SYS": "Between NUMA nodes",
}
SHORT = {"NV": "nv", "C2C": "nv", "PIX": "pix", "PXB": "pxb", "PHB": "phb", "NODE": "numa", "SYS": "sys"}
MAX_MATRIX = 16
MAX_JOBS = 8
KINDS = {
    "node": "node",
    "leaf": "leaf switch",
    "block": "block",
    "nvlink_domain": "NVLink domain",
    "nvlink": "NVLink island",
    "spine": "spine switch",
    "zone": "zone",
}


def level_word(level: str) -> str:
    """`NV18` without its number of links."""
    return "NV" if level.startswith("NV") and level[2:].isdigit() else level


def matrix(view: Row, numbers: Mapping[str, object]) -> Component:
    """The level of each pair of GPUs. `numbers`: the GPU's number on its node."""
    pairs: list[Row] = view.get("pairs") or []
    gpus = sorted(
        (one["gpu"] for one in view.get("gpus") or []), key=lambda gpu: (str(numbers.get(gpu, "")).zfill(4), gpu)
    )
    if not pairs:
        fixes = [states.fix(str(one["fix"]), "") for one in view.get("missing") or [] if one.get("what") == "links"]
        if len(gpus) < 2:
            return parts.card("One GPU: no links inside the node")
        return parts.card("The links between its GPUs are not known", *fixes)
    levels = {frozenset((pair["a"], pair["b"])): pair for pair in pairs}
    shown = gpus[:MAX_MATRIX]
    head = html.Tr([html.Th(""), *(html.Th(name(gpu, numbers, at), scope="col") for at, gpu in enumerate(shown))])
    body = [
        html.Tr(
            [html.Th(name(a, numbers, at), scope="row"), *(cell(levels.get(frozenset((a, b))), a == b) for b in shown)]
        )
        for at, a in enumerate(shown)
    ]
    table = html.Table(
        [html.Caption("Level of each pair of GPUs", className="unseen"), html.Thead(head), html.Tbody(body)]
    )
    known = sorted(
        {level_word(str(pair["level"])) for pair in pairs},
        key=lambda word: list(LEVELS).index(word) if word in LEVELS else 99,
    )
    legend = [
        html.Span(
            [
                html.Span(className=f"dot l-{SHORT.get(word, 'sys')}"),
                f"{word}: {LEVELS.get(word, word)}{speeds(pairs, word)}",
            ],
            className="bucket",
        )
        for word in known
    ]
    more = (
        html.P(f"The first {MAX_MATRIX} of {len(gpus)} GPUs.", className="soft small")
        if len(gpus) > MAX_MATRIX
        else None
    )
    return parts.card(
        title(known),
        html.Div(table, className="matrix scroll", tabIndex="0", role="region", **parts.aria("Link matrix")),
        html.Div(legend, className="legend"),
        more,
        note="GB/s per direction: what the link can do, not what it carries",
    )


def title(known: Sequence[str]) -> str:
    """What links the GPUs, in a sentence."""
    if known == ["NV"]:
        return "Every pair of its GPUs is linked by NVLink"
    if "NV" in known:
        return "NVLink links only some of its GPUs"
    return "No NVLink: its GPUs communicate over PCIe"


def name(gpu: str, numbers: Mapping[str, object], at: int) -> str:
    """`GPU 3`."""
    number = numbers.get(gpu)
    return f"{at if number is None else number}"


def cell(pair: Row | None, same: bool) -> Component:
    """One pair of the matrix."""
    if same:
        return html.Td("", className="same")
    if pair is None:
        return html.Td(formats.MISSING, title="Not known")
    word = level_word(str(pair["level"]))
    speed = f", {pair['gb_per_s']:g} GB/s" if pair.get("gb_per_s") is not None else ""
    return html.Td(
        str(pair["level"]), className=f"l-{SHORT.get(word, 'sys')}", title=f"{LEVELS.get(word, word)}{speed}"
    )


def speeds(pairs: Sequence[Row], word: str) -> str:
    """`, 370 GB/s`; empty where it is not known or differs."""
    found = {pair.get("gb_per_s") for pair in pairs if level_word(str(pair["level"])) == word}
    speed = next(iter(found)) if len(found) == 1 else None
    return "" if speed is None else f", {speed:g} GB/s"


def reach(data: Row, query: Query) -> Component:
    """The jobs that a failed link of one element touches."""
    jobs: list[Row] = data.get("jobs") or []
    crossing = [job for job in jobs if job.get("crosses")]
    inside = [job for job in jobs if not job.get("crosses")]
    element = f"{KINDS.get(str(data.get('kind')), data.get('kind'))} {formats.clip(data.get('name'), 40)}"
    found = f"{count(len(crossing), 'job')} would lose a link"
    if not crossing:
        found = "no job communicates over it"
    lines: list[Component] = [html.Li(job_words(job, data, query)) for job in crossing[:MAX_JOBS]]
    if len(crossing) > MAX_JOBS:
        lines.append(html.Li(f"and {len(crossing) - MAX_JOBS} more", className="soft"))
    some = f"{count(len(inside), 'more job')} {'lie' if len(inside) != 1 else 'lies'} wholly inside and would go on."
    return html.Div(
        [
            html.H3(f"Uplink of {element}: {found}"),
            html.Ul(lines, className="plainlist") if lines else None,
            html.P(some, className="soft small") if inside else None,
        ]
    )


def job_words(job: Row, data: Row, query: Query) -> list[Component | str]:
    """A job, its team, and how many of its GPUs lie inside."""
    team: list[Component | str] = [" of ", parts.team_link(query, job["team"])] if job.get("team") else []
    link = parts.link(
        formats.clip(job["job"], 40), job_link(query, data.get("cluster"), str(job["job"])), "title", str(job["job"])
    )
    return [link, *team, f": {job['gpus_inside']} of its {job['gpus']} GPUs inside"]
