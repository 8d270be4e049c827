"""The GPUs of a job at its start, beside the best set of GPUs that was free at that moment."""

from __future__ import annotations

from collections.abc import Collection
from typing import Any

import pyarrow as pa

from gpuwatch.core.clock import rfc3339
from gpuwatch.core.errors import UsageError
from gpuwatch.hardware.link_graph import Graph
from gpuwatch.store.database import Store
from gpuwatch.topology.derive import graph
from gpuwatch.topology.grade import REASONS
from gpuwatch.topology.jobs import DEVICES_MAX, no_gang, place_words, spans
from gpuwatch.topology.start_grade import graded

_RUN = pa.schema([("cluster", pa.string()), ("job_id", pa.string()), ("run_id", pa.int64())])

Row = dict[str, Any]


def job_overlay(store: Store, job: str, cluster: str | None = None, teams: Collection[str] | None = None) -> Row | None:
    """The answer of GET /topology/job; None for an unknown job, or one of other teams.

    `best` is None where nothing nearer was free, the placement is not graded, or with `teams`: what was free depends on others.
    Raises UsageError if several clusters have the job and none is named.
    """
    asked = {"job": job, "cluster": cluster, "teams": None if teams is None else sorted(teams)}
    runs = store.rows("topology/job_run", **asked)
    if not runs:
        return None
    names = sorted({row["cluster"] for row in runs})
    if len(names) > 1:
        raise UsageError(f"job {job} exists in {', '.join(names)}: choose one with cluster=NAME")
    with store.view("asked_run", pa.Table.from_pylist(runs, schema=_RUN)):
        rows = store.rows("topology/placement/gang", limit=DEVICES_MAX)
    if not rows:
        return None
    gpus, models = sorted({row["gpu"] for row in rows}), {row["model"] for row in rows}
    around = graph(store, names[0], rows[0]["at_us"])
    result: Row = {
        "cluster": names[0],
        "job": job,
        "at": rfc3339(rows[0]["at_us"]),
        "gpus": [_seat(around, gpu, row_node(rows, gpu)) for gpu in gpus],
        "grade": None,
        "spans": None,
        "best": None,
        "why": None,
    }
    reason = no_gang(rows, gpus, models)
    if reason is None and any(gpu not in around.places for gpu in gpus):
        reason = "nodes"
    if reason is not None:
        return result | {"why": REASONS[reason]}
    found = graded(store, names[0], around, rows, gpus, str(rows[0]["model"]))
    result["spans"] = spans(found)
    reason = "scope" if teams is not None else found.reason
    if reason is not None:
        return result | {"why": REASONS[reason]}
    result["grade"] = found.grade
    if found.best is None or found.best.where == found.where:
        return result
    place = found.best.where
    return result | {
        "best": {
            "words": place_words(place, found.spread.nvlink_domains is not None),
            "name": place.name,
            "free_gpus": found.best.free,
            "gb_per_s": found.best.gb_per_s,
            "gb_per_s_now": found.gb_per_s,
            "gpus": [_seat(around, gpu, None) for gpu in found.best.gpus],
        }
    }


def row_node(rows: list[Row], gpu: str) -> str | None:
    """The node that the device's own record names."""
    return next((row["node"] for row in rows if row["gpu"] == gpu), None)


def _seat(around: Graph, gpu: str, node: str | None) -> Row:
    place = around.places.get(gpu)
    inside = None if place is None else place.container("node")
    return {"gpu": gpu, "node": node if inside is None else inside.name}
