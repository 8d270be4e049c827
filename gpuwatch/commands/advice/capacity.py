"""The `gpuwatch shapes` command: what fits on the free GPUs now, and what is stranded."""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator
from typing import Annotated, Any

import typer

from gpuwatch.commands import hints, remote
from gpuwatch.commands.registry import command
from gpuwatch.commands.shared import (
    DEFAULT_DATA,
    ConfigOption,
    DataOption,
    FormatOption,
    moment_us,
    now_us,
    opened,
    program,
    show,
)
from gpuwatch.output.listing import Listing, choose
from gpuwatch.store import lockfile

COLUMNS = ("cluster", "pool", "gpu_model", "shape", "profile", "gpus", "requested_ratio")
SLOTS = ("node_local", "nvlink_local", "leaf_local", "across")
SLICES = ("ready", "creatable", "placeable", "after_repartition", "exact")
SHOWN = ("cluster", "pool", "gpu_model", "shape", "requested", *SLOTS, *SLICES[:2], SLICES[3])
DAYS_LEAST, DAYS_MOST = 7, 28
ASKED = "asked"
"""Used instead of a shape: all requested shapes that do not fit."""
PLANNED = (
    "cluster",
    "pool",
    "gpu_model",
    "shape",
    "free_gpus",
    "placeable",
    "possible",
    "moved_gpus",
    "exact",
    "moves",
)


def shapes(
    context: typer.Context,
    data: DataOption = DEFAULT_DATA,
    cluster: Annotated[str | None, typer.Option("--cluster", metavar="NAME", help="Only this cluster.")] = None,
    at: Annotated[str | None, typer.Option("--at", metavar="T", help="Time (RFC 3339); default: now.")] = None,
    days: Annotated[
        int, typer.Option("--days", metavar="D", min=DAYS_LEAST, max=DAYS_MOST, help="Days of requests to consider.")
    ] = DAYS_MOST,
    plan: Annotated[
        str | None,
        typer.Option(
            "--plan",
            metavar="SHAPE",
            help=f"Show the moves that free up space for a shape: 8, or 2x8 (nodes x GPUs), or {ASKED} for all that do not fit.",
        ),
    ] = None,
    config: ConfigOption = None,
    form: FormatOption = None,
) -> None:
    """Show which jobs fit on the free GPUs now. Also lists stranded GPUs with cause and cost."""
    from gpuwatch.billing.chargeback import price_all
    from gpuwatch.capacity.now import shapes as look
    from gpuwatch.output.fix_hints import Advice
    from gpuwatch.policy.known_names import cluster_names

    chosen = choose(form, sys.stdout.isatty())
    moment = moment_us(at, "--at")
    if plan is not None:
        _plan(context, data, config, chosen, cluster, at, moment, None if plan == ASKED else plan, days)
        return
    if (note := lockfile.find(data)) is not None:
        found = remote.every(note, "/api/v1/capacity/shapes", {"cluster": cluster, "at": at, "days": days})
        if cluster is not None and not found["clusters"]:
            hints.doubt_cluster(cluster, hints.served_clusters(note))
    else:
        with opened(data, config) as (store, state, _):
            price_all(store, state)
            at_us = now_us(context) if moment is None else moment
            found = look(
                store, at_us, cluster=cluster, days=days, advice=Advice(program(), str(data)), exact=at is not None
            )
            if cluster is not None and not found["clusters"]:
                hints.doubt_cluster(cluster, cluster_names(store))
    rows = found["items"]
    if chosen == "table":
        rows = [row | {"requested": _percent(row["requested_ratio"])} for row in rows]
    extra = {name: value for name, value in found.items() if name not in ("items", "next", "next_offset")}
    show(Listing((*COLUMNS, *SLOTS, *SLICES), rows, extra, shown=SHOWN, foot=list(_foot(found, cluster))), chosen)


def _plan(
    context: typer.Context,
    data: DataOption,
    config: ConfigOption,
    form: str,
    cluster: str | None,
    at: str | None,
    moment: int | None,
    shape: str | None,
    days: int,
) -> None:
    """The moves, and MIG layouts that would have served last week's demand better."""
    from gpuwatch.capacity.plan import plans

    if (note := lockfile.find(data)) is not None:
        parameters = {"cluster": cluster, "at": at, "shape": shape, "days": days}
        found = json.loads(remote.get(note, "/api/v1/capacity/plan", parameters))
    else:
        with opened(data, config) as (store, _, _):
            at_us = now_us(context) if moment is None else moment
            found = plans(store, at_us, cluster=cluster, shape=shape, days=days, exact=at is not None)
    rows = found["items"]
    if form != "json":
        rows = [
            row | {"moves": ", ".join(f"{m['job']}: {m['gpus']} on {m['node']}" for m in row["moves"])} for row in rows
        ]
    extra = {name: value for name, value in found.items() if name not in ("items", "next")}
    show(Listing(PLANNED, rows, extra, foot=list(_layouts(found))), form)


def _layouts(found: dict[str, Any]) -> Iterator[str]:
    for one in found["repartition"]:
        for change in one["changes"]:
            yield f"{one['cluster']}: {change['gpu']} {'+'.join(change['layout'])} -> {'+'.join(change['better'])}"
        if one["changes"]:
            before, after = _percent(one["served_ratio"]), _percent(one["served_ratio_after"])
            yield f"{one['cluster']}: {before} of last week's MIG demand found an instance; with better layouts {after}"


def _foot(found: dict[str, Any], cluster: str | None = None) -> Iterator[str]:
    """Lines below the table: stranded GPUs with causes, shapes that do not fit, gangs, missing information."""
    if not found["clusters"] and cluster is None:
        yield "The ledger is empty: import data and run gpuwatch analyze first."
    for one in found["clusters"]:
        yield from (f"{one['cluster']}: {line}" for line in _about_cluster(one))
    for price in found["total"]["cost_per_hour"] or ():
        yield f"Stranded: {price['amount']} {price['currency']} per hour"
    if found["total"]["unpriced_gpus"]:
        yield f"Stranded without a price: {found['total']['unpriced_gpus']:g} GPUs"


def _about_cluster(one: dict[str, Any]) -> Iterator[str]:
    """What is free and stranded, the largest gangs, the shapes that do not fit, and what is missing."""
    for what, amounts in (("GPUs", one["gpus"]), ("GPUs with MIG slices", one["slices"])):
        if amounts is not None:
            causes = "; ".join(f"{cause['gpus']:g} {cause['means']}" for cause in amounts["causes"])
            rate = f" ({_percent(amounts['rate'])})" if amounts["rate"] is not None else ""
            stranded = f"{amounts['stranded_gpus']:g} stranded{rate}"
            yield f"{amounts['free_gpus']:g} {what} free, {stranded}{': ' + causes if causes else ''}"
    yield from _largest_gangs(one["gangs"])
    starved = [_request(shape) for shape in (one["demand"] or {"shapes": ()})["shapes"] if shape["starved"]]
    if starved:
        yield f"requested shapes that do not fit now: {'; '.join(dict.fromkeys(starved))}"
    for note in one["notes"]:
        gpus = "" if note["gpus"] is None else f" of {note['gpus']} GPUs"
        first, *lines = note["fix"].splitlines()
        yield f"missing: {note['what']}{gpus}. {first}"
        if note["what"] == "price":  # lines to paste, and the command that sets them
            yield from lines


def _largest_gangs(gangs: list[dict[str, Any]]) -> Iterator[str]:
    levels: dict[str | None, list[str]] = {}
    for gang in gangs:
        most = "unknown" if gang["gpus"] is None else str(gang["gpus"])
        levels.setdefault(gang["gpu_model"], []).append(f"{gang['level']} {most}")
    for model, found in levels.items():
        yield f"largest gang of {model or 'unknown model'}: {', '.join(found)}"


def _request(shape: dict[str, Any]) -> str:
    """A requested shape: `2x8 of NVIDIA H100`, or only the shape if any model will do."""
    models = shape["gpu_models"]
    return f"{shape['shape']} of {' or '.join(models)}" if models else str(shape["shape"])


def _percent(ratio: float | None) -> str | None:
    return None if ratio is None else f"{100 * ratio:.1f} %"


command("shapes", shapes, place=130)
