"""One layer of the authority scorecard: its decisions, who makes them, and its findings. Pure."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from decimal import Decimal
from fractions import Fraction
from typing import Any

from gpuwatch.report import text as report_text
from gpuwatch.report.document import Block, Cell, Column, Heading, Notice, Row, Section, Table, Text, row
from gpuwatch.report.html.markup import name

POOLS_MAX = 15
"""Pools that a table shows; the JSON file has all."""
FINDINGS_MAX = 5

Json = Mapping[str, Any]


def layer_section(card: Json, layer: Json) -> Section:
    """What a layer decides and who decides it, what is left to defaults, and the cost of its findings."""
    blocks: list[Block] = [Text(f"Decides {layer['decides']}. {_why(layer)}")]
    if layer["decisions"]:
        blocks.append(_decisions(layer))
    if card["window"] is not None:
        blocks += _WHO[layer["id"]](card)
    left = [one for one in layer["decisions"] if one["state"] in ("default", "in part")]
    if left:
        blocks.append(Notice("Left to defaults", tuple(f"{one['title']}: {one['fix']}" for one in left)))
    blocks += _findings(card, layer)
    return Section(f"{layer['name']}: {_grade(layer)}{_cost(card, layer)}", tuple(blocks))


def _grade(layer: Json) -> str:
    return f"grade {layer['grade']}" if layer["grade"] else str(layer["grade_words"])


def _cost(card: Json, layer: Json) -> str:
    """The waste that its findings claim, if any."""
    if not Fraction(layer["gpu_hours"] or 0):
        return ""
    hours = report_text.hours(Fraction(layer["gpu_hours"]))
    if layer["cost"] is None:
        return f", findings of {hours}"
    return f", findings of {report_text.money(Decimal(layer['cost']), card['currency'])} ({hours})"


def _why(layer: Json) -> str:
    arise = [one for one in layer["decisions"] if one["state"] != "does not arise"]
    evaluated = f"{layer['decisions_judged']} of {len(arise)} relevant decisions could be evaluated."
    if layer["points"] is None:
        why = f" Not graded: {layer['not_graded']}" if layer["not_graded"] else ""
        return f"{evaluated}{why}" if arise else "No grade: no decision is needed here, as far as is known."
    sentences = f"{evaluated} Score: {layer['points']:.2f} of 1."
    lost = layer["letters_lost"]
    if lost:
        sentences += f" The cost of its findings lowers the grade by {lost} {'letter' if lost == 1 else 'letters'}."
    return sentences + (" At best C while a critical finding is open." if layer["worst"] == "critical" else "")


def _decisions(layer: Json) -> Table:
    columns = (
        Column("Decision", label=True, part=2.2),
        Column("Decided", label=True, part=0.9),
        Column("What is known", part=4),
    )
    return Table(columns, tuple(row([one["title"], one["state"], one["said"]]) for one in layer["decisions"]))


def _placement(card: Json) -> list[Block]:
    """Which gangs ran, and what placed them."""
    return [*_maps(card, "link_sources", "links inside nodes"), *_gangs(card)]


def _gangs(card: Json) -> list[Block]:
    gangs: Sequence[Json] = card["gangs"]
    if not gangs:
        return []
    rows = [
        row(
            [
                words_of(one["authority"], one["gate"]),
                report_text.count(Fraction(one["gpu_hours"])),
                f"{one['runs']:,}",
                {True: "whole", False: "in part", None: report_text.MISSING}[one["whole"]],
                one["topology"] or report_text.MISSING,
            ]
        )
        for one in gangs[:POOLS_MAX]
    ]
    columns = (
        Column("Gangs placed by", part=2.5),
        Column("GPU-hours", number=True),
        Column("Runs", number=True, wide=True),
        Column("Start"),
        Column("Requested topology", part=1.4),
    )
    return [Table(columns, tuple(rows)), *_more(len(gangs), "kinds of gangs")]


def _maps(card: Json, sources: str, what: str) -> list[Block]:
    found = sorted({str(source) for row in card["topology"] for source in row[sources] or ()})
    return [Text(f"Sources of {what}: {', '.join(found) or 'none'}.")]


def _partitioning(card: Json) -> list[Block]:
    rows = [one for one in card["mig"] if one["cut_gpus"] or one["strategy"] not in (None, "none")]
    if not rows:
        return []
    shown: list[Row] = [
        row(
            [
                name(one["pool"]),
                name(one["model"]),
                f"{one['cut_gpus']:,} of {one['gpus']:,}",
                f"{one['slices']:,}",
                one["strategy"] or "unknown",
                name(one["set_by"], "unknown" if one["cut_gpus"] else ""),
            ]
        )
        for one in sorted(rows, key=lambda one: (-one["cut_gpus"], -one["gpus"], str(one["pool"])))[:POOLS_MAX]
    ]
    columns = (
        Column("Pool", part=1.5),
        Column("Model", wide=True, part=2),
        Column("Partitioned GPUs", number=True),
        Column("Slices", number=True, wide=True, part=0.7),
        Column("MIG strategy"),
        Column("Partitioned by", part=1.3),
    )
    return [Heading("Partitioning by pool"), Table(columns, tuple(shown)), *_more(len(rows), "pools")]


def words_of(authority: str, gate: str | None) -> str:
    """The scheduler, and the gate before it: `kube-scheduler behind kueue`."""
    label = {"inner": "inside other jobs", "unknown": "unknown (sample labels)"}.get(authority, authority)
    return name(label if gate is None else f"{label} behind {gate}")


def _scheduling(card: Json) -> list[Block]:
    """Pools with several schedulers first, then the largest."""
    pools: Sequence[Json] = card["writers"]
    if not pools:
        return []
    ranked = sorted(pools, key=lambda one: not one["several"])
    rows = [
        row(
            [
                name(one["pool"]),
                report_text.count(Fraction(str(one["gpu_hours"]))),
                ", ".join(_writer(each) for each in one["writers"]),
                f"{one['shared_nodes']:,} of {one['nodes']:,} nodes" if one["several"] else "no",
            ]
        )
        for one in ranked[:POOLS_MAX]
    ]
    columns = (
        Column("Pool", part=1.5),
        Column("GPU-hours held", number=True),
        Column("Schedulers", part=3),
        Column("Sharing nodes", part=1.2),
    )
    return [Heading("Schedulers by pool"), Table(columns, tuple(rows)), *_more(len(pools), "pools")]


def _writer(one: Json) -> str:
    return f"{words_of(one['authority'], one['gate'])} {report_text.percent(Fraction(str(one['ratio'])))}"


def _fabric(card: Json) -> list[Block]:
    return _maps(card, "network_sources", "node positions in the network")


def _more(count: int, what: str) -> list[Block]:
    return [Text(f"{count - POOLS_MAX:,} more {what} are in scorecard.json.", "soft")] if count > POOLS_MAX else []


def _findings(card: Json, layer: Json) -> list[Block]:
    found: Sequence[Json] = layer["findings"]
    if not found:
        return [] if card["window"] is None else [Text("No findings of this layer in the window.", "soft")]
    rows = [
        row(
            [
                one["severity"],
                f"{one['title']}: {name(one['subject']['id'])}. {one['summary']}",
                one["state"],
                Cell(_price(one)),
            ]
        )
        for one in found[:FINDINGS_MAX]
    ]
    columns = (
        Column("Severity", label=True, part=0.9),
        Column("Finding", part=5),
        Column("State", wide=True, label=True, part=0.9),
        Column("Cost", number=True, part=1.1),
    )
    count = f"{layer['findings_count']:,} {'finding' if layer['findings_count'] == 1 else 'findings'}, {layer['open_count']:,} open"
    more = layer["findings_count"] - len(rows)
    rest = [Text(f"The most expensive ones are shown; gpuwatch findings lists {more:,} more.", "soft")] if more else []
    return [Heading(f"Findings: {count}"), Table(columns, tuple(rows)), *rest]


def _price(found: Json) -> str:
    if found["cost"] is not None:
        return report_text.money(Decimal(found["cost"]), found["currency"])
    hours = Fraction(found["gpu_hours"])
    return f"{report_text.hours(hours)}" if hours else "not counted"


_WHO: dict[str, Callable[[Json], list[Block]]] = {
    "placement": _placement,
    "partitioning": _partitioning,
    "scheduling": _scheduling,
    "fabric": _fabric,
}
