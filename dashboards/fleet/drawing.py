"""A drawing of GPUs in their places: cluster, leaf, node, NVLink domain, GPU. assets/fleet_map.js puts it on a canvas."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from dash import html
from dash.development.base_component import Component

from gpuwatch.dashboards.client import Row
from gpuwatch.dashboards.components import formats, parts
from gpuwatch.dashboards.fleet.colours import Kind, ink_on, kinds
from gpuwatch.dashboards.shell.theme import Scheme

UNIT = "\u001f"
MAX_TIP = 60


@dataclass(frozen=True)
class Mark:
    """GPUs to outline: (cluster, node) with the places of its GPUs. `ghost`: dashed, a place that is not held."""

    word: str
    at: Mapping[tuple[str, str], Sequence[int]]
    ghost: bool = False


@dataclass(frozen=True)
class Style:
    """How a drawing is made."""

    colour: str = "owner"
    scheme: Scheme = "light"
    marks: Sequence[Mark] = ()
    selected: tuple[str, str] | None = None
    link: str = ""
    """Where a click on a node leads; `__CLUSTER__` and `__NODE__` are replaced."""
    only: Callable[[Row], bool] | None = None
    """The nodes to draw; None: all."""
    height: str = ""
    """A CSS class for the height: "", `short` or `tiny`."""
    focus: str = ""
    """Drawings with marks start at them if this is set; another value goes there again."""
    counts: bool = True
    """Whether the legend counts GPUs."""


def drawing(data: Row, ident: str, label: str, style: Style) -> Component:
    """The drawing with its legend. `data` is the answer of GET /topology/map; `label` describes it for screen readers."""
    nodes = [node for node in data.get("nodes") or [] if style.only is None or style.only(node)]
    kind_of = kinds(data, style.colour, style.scheme)
    numbers: dict[Kind, int] = {}
    counts: Counter[Kind] = Counter()
    tips: dict[str, int] = {}
    names = _job_words(data)
    groups: dict[tuple[str, str, str], list[Row]] = {}
    for node in nodes:
        found = [kind_of(node, n) for n in range(len(node["gpus"]))]
        counts.update(found)
        entry: Row = {
            "k": f"{node['cluster']}{UNIT}{node['node']}",
            "n": node["node"],
            "c": [numbers.setdefault(kind, len(numbers)) for kind in found],
        }
        if node["index"] != list(range(len(found))):
            entry["x"] = ["" if index is None else index for index in node["index"]]
        if len(set(node["island"]) - {None}) > 0:
            entry["i"] = node["island"]
        words = [None if job is None else names[job] for job in node["job"]]
        if any(words):
            entry["t"] = [-1 if word is None else tips.setdefault(word, len(tips)) for word in words]
        groups.setdefault(_place(node), []).append(entry)
    several = len({cluster for cluster, _, _ in groups}) > 1
    marks = [mark for mark in style.marks if mark.at]
    spec = {
        "id": ident,
        "label": label,
        "link": style.link,
        "focus": style.focus,
        "selected": UNIT.join(style.selected) if style.selected else "",
        "groups": [
            {"t": _title(place, several), "nodes": some} for place, some in sorted(groups.items(), key=_unplaced_last)
        ],
        "classes": [
            {"w": kind.word, "f": kind.colour, "h": kind.hatched, "i": ink_on(kind.colour)} for kind in numbers
        ],
        "tips": list(tips),
        "marks": [
            {"ghost": mark.ghost, "dim": True, "at": {UNIT.join(key): list(some) for key, some in mark.at.items()}}
            for mark in marks
        ],
    }
    stage = html.Div(className="fleetmap-stage")
    content = json.dumps(spec, separators=(",", ":"))
    attributes: dict[str, Any] = {"data-spec": content, **parts.aria(label)}
    return html.Div(
        [
            html.Div(stage, className=f"fleetmap {style.height}".strip(), role="group", **attributes),
            legend(counts, marks, style.counts),
        ],
        className="drawn",
    )


def legend(counts: Mapping[Kind, int], marks: Sequence[Mark] = (), numbers: bool = True) -> Component:
    """The colours in words, with how many GPUs have each, and what the outlines mean."""
    entries = [
        html.Span(
            [
                html.Span(
                    className="dot hatch" if kind.hatched else "dot",
                    style={"--fill": kind.colour} if kind.hatched else {"background": kind.colour},
                ),
                f"{kind.word} {count:,}" if numbers else kind.word,
            ],
            className="bucket",
        )
        for kind, count in sorted(counts.items(), key=lambda one: (one[0].order, -one[1], one[0].word))
    ]
    entries += [
        html.Span([html.Span(className="dot ghost" if mark.ghost else "dot ring"), mark.word], className="bucket")
        for mark in marks
    ]
    return html.Div(entries, className="legend")


def small(data: Row, ident: str, label: str, nodes: Iterable[str], cluster: str, style: Style) -> Component | None:
    """A small drawing of the named nodes of a cluster alone; None where the map has none of them."""
    wanted = set(nodes)
    if not any(node["cluster"] == cluster and node["node"] in wanted for node in data.get("nodes") or []):
        return None
    changed = Style(
        style.colour,
        style.scheme,
        style.marks,
        style.selected,
        style.link,
        lambda node: node["cluster"] == cluster and node["node"] in wanted,
        style.height or "tiny",
    )
    return drawing(data, ident, label, changed)


def places_of(data: Row, gpus: Iterable[str]) -> dict[tuple[str, str], list[int]]:
    """GPUs by their node, as places in its lists. Those that the map lacks are left out."""
    wanted = set(gpus)
    found: dict[tuple[str, str], list[int]] = {}
    for node in data.get("nodes") or []:
        places = [n for n, gpu in enumerate(node["gpus"]) if gpu in wanted]
        if places:
            found[node["cluster"], node["node"]] = places
    return found


def _job_words(data: Row) -> list[str]:
    """Each job in a few words: its id and its team."""
    teams: list[str] = data.get("teams") or []
    return [
        formats.clip(
            f"{job.get('name') or job['job']} · {formats.owner(teams[job['team']])}"
            if job.get("team") is not None
            else job["job"],
            MAX_TIP,
        )
        for job in data.get("jobs") or []
    ]


def _place(node: Row) -> tuple[str, str, str]:
    return str(node["cluster"]), str(node.get("leaf") or ""), str(node.get("nvlink_domain") or "")


def _unplaced_last(one: tuple[tuple[str, str, str], list[Row]]) -> tuple[str, bool, str, str]:
    (cluster, leaf, domain), _ = one
    return cluster, not (leaf or domain), leaf, domain


def _title(place: tuple[str, str, str], several: bool) -> str:
    cluster, leaf, domain = place
    words = [cluster] if several else []
    words += [leaf or ("" if domain else "Leaf not known")]
    if domain:
        words.append(f"NVLink {domain}")
    return " · ".join(word for word in words if word)
