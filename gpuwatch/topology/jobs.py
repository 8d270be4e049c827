"""The placement of a job: its GPUs at the start, what was free then, and the traffic on its links."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from dataclasses import asdict, replace
from datetime import UTC, datetime
from fractions import Fraction
from typing import Any

import pyarrow as pa

from gpuwatch.core.clock import HOUR_US, SECOND_US, parse_rfc3339, rfc3339
from gpuwatch.core.gpu_specs import facts
from gpuwatch.core.money import CENT_PLACES, format_quantity
from gpuwatch.hardware.link_graph import Graph
from gpuwatch.hardware.links import NODE_KINDS
from gpuwatch.output.fix_hints import Advice
from gpuwatch.store.database import Store
from gpuwatch.topology.derive import graph
from gpuwatch.topology.gaps import SERVED, links_fix, network_fix
from gpuwatch.topology.grade import EXPOSED, REASONS, Placement
from gpuwatch.topology.seats import BEYOND, Seat, Where, seats, spread
from gpuwatch.topology.start_grade import graded

DEVICES_MAX = 16_384
"""Devices of one gang that are read."""
GANG_US = 10 * 60 * SECOND_US
"""The pods of a gang start within this time; others are replicas that come and go."""
TRAFFIC_US = 24 * HOUR_US
"""Time from the start on in which link traffic is evaluated."""
TRAFFIC_US_MIN = 30 * 60 * SECOND_US
"""Measured time per device, on average, below which traffic counts as unknown."""
QUIET_LINK_RATIO = 0.01
QUIET_PCIE_BYTES_PER_S = 1e9
"""Links that carry less are quiet: then their length does not matter."""
MISSING_MAX = 20
MAPPING = (
    "Start dcgm-exporter with --hpc-job-mapping-dir and let the Slurm prolog write there, or name [[slurm]] in "
    "gpuwatch.toml: it asks scontrol while jobs run."
)
PLACES = 3
CLIQUE = "GPU feature discovery writes the node label nvidia.com/gpu.clique once the fabric is up; Topograph can too."
COUNTERS = (
    "Let dcgm-exporter read DCGM_FI_PROF_NVLINK_TX_BYTES, DCGM_FI_PROF_NVLINK_RX_BYTES, DCGM_FI_PROF_PCIE_TX_BYTES and "
    "DCGM_FI_PROF_PCIE_RX_BYTES: add them to its metrics file."
)

ONE = {
    "nvlink": "one NVLink domain",
    "pcie": "one PCIe switch",
    "numa": "one socket",
    "node": "one node",
    "host": "one host",
    "block": "one block",
    "leaf": "one leaf switch",
    "spine": "one spine switch",
    "core": "one core switch",
    BEYOND: "the network",
}

Row = dict[str, Any]

HOSTNAME = "Let the exporter name it: dcgm-exporter's label Hostname, or the label of Prometheus that has the node."
UNGRADED: Row = {
    "grade": None,
    "why": "",
    "at": None,
    "gpus": 0,
    "gpu_model": None,
    "kind": None,
    "name": None,
    "worst_level": None,
    "gb_per_s": None,
    "mean_gb_per_s": None,
    "levels": [],
    "crossed": None,
    "best": None,
    "slowdown": None,
    "traffic": None,
    "missing": [],
}
"""A placement without any facts."""


def of_runs(store: Store, cluster: str, runs: pa.Table, *, named: bool = True, advice: Advice = SERVED) -> Row | None:
    """The placement of a job by its runs (cluster, job_id, run_id); None where no device of them is known.

    For a requeued job the newest start counts; for one that grew, shrank or moved, the largest set that it held at one
    time. It is graded on the topology of that instant. With `named` False it is not graded, for team-scoped callers: what
    was free depends on others.
    """
    with store.view("asked_run", runs):
        rows = store.rows("topology/placement/gang", limit=DEVICES_MAX)
    if not rows:
        return None
    devices = sorted({row["device_id"] for row in rows})
    at_us, models = rows[0]["at_us"], {row["model"] for row in rows}
    gpus = sorted({row["gpu"] for row in rows})
    result = UNGRADED | {
        "at": rfc3339(at_us),
        "gpus": len(devices),
        "gpu_model": next(iter(models)) if len(models) == 1 else None,
    }
    reason = no_gang(rows, gpus, models)
    if reason is not None:
        missing = [{"what": "which devices it held", "fix": MAPPING}] if reason == "estimated" else []
        return result | {"why": _sentence(REASONS[reason]), "missing": missing}
    model = str(result["gpu_model"])
    around = graph(store, cluster, at_us)
    if unplaced := [gpu for gpu in gpus if gpu not in around.places]:
        missing = [{"what": f"the node of {len(unplaced)} of its GPUs", "fix": HOSTNAME}]
        return result | {"why": _sentence(REASONS["nodes"]), "missing": missing}
    found = graded(store, cluster, around, rows, gpus, model)
    if not named:
        found = replace(found, best=None, grade=None, slowdown=None, reason="scope")
    traffic = _traffic(store, cluster, rows[0], devices, model)
    return result | {
        "grade": found.grade,
        "why": _why(found, at_us),
        "kind": found.where.kind,
        "name": found.where.name,
        "worst_level": found.worst,
        "gb_per_s": found.gb_per_s,
        "mean_gb_per_s": found.mean_gb_per_s,
        "levels": [{"level": level, "share": share} for level, share in found.levels.items()],
        "crossed": asdict(found.spread),
        "best": _best(found, around, model),
        "slowdown": _slowdown(found, traffic),
        "traffic": traffic,
        "missing": _missing(store, cluster, found, seats(around, gpus, model).values(), traffic, advice),
    }


def with_cost(
    placement: Row | None, runs: Iterable[Row], costs: Mapping[int, tuple[Fraction, str] | None]
) -> Row | None:
    """Adds to a slowdown what the lost work cost, decimal text: of the runs that were there `at` its start.

    `costs`: cost and currency by run, None where a part has no price; then, and with several currencies, the cost is None.
    """
    if placement is None or placement["slowdown"] is None:
        return placement
    at_us = parse_rfc3339(placement["at"])
    there = [run["run_id"] for run in runs if run["start_us"] <= at_us < (run["end_us"] or at_us + 1)]
    known = [cost for run_id in there if (cost := costs.get(run_id)) is not None]
    currencies = {currency for _, currency in known}
    slow = dict(placement["slowdown"])
    whole = len(known) == len(there) and len(currencies) == 1
    total = sum((cost for cost, _ in known), Fraction(0))
    for end in ("low", "high"):
        lost = total * Fraction(str(slow[f"lost_ratio_{end}"]))
        slow[f"cost_{end}"] = format_quantity(lost, CENT_PLACES) if whole else None
    return placement | {"slowdown": slow | {"currency": next(iter(currencies)) if whole else None}}


def no_gang(rows: list[Row], gpus: list[str], models: set[str | None]) -> str | None:
    """Why these devices are not a gang that can be graded."""
    if any(row["gi"] >= 0 or not row["whole"] for row in rows):
        return "slices"
    if len(gpus) < 2:
        return "one"
    if any(row["estimated"] for row in rows):
        return "estimated"
    if len(models) > 1 or None in models:
        return "models"
    return "apart" if rows[0]["last_us"] - rows[0]["first_us"] > GANG_US else None


def _why(found: Placement, at_us: int) -> str:
    """One or two sentences: what it spans, and what was available."""
    if found.reason is not None:
        return _sentence(REASONS[found.reason])
    here = spans(found)
    if found.best is None or found.best.where == found.where:
        return f"{here}: nothing nearer was free."
    clock = datetime.fromtimestamp(at_us // SECOND_US, UTC).strftime("%H:%M")
    place = found.best.where
    name = f" ({place.name})" if place.name else ""
    kind = place_words(place, found.spread.nvlink_domains is not None)
    there = (
        f"{kind}{name} with {found.best.free} free GPUs {'were' if kind[:1].isdigit() else 'was'} there at {clock} UTC"
    )
    if found.grade == "A":
        return f"{here}; {there}, and its links are no faster."
    return f"{here}; {there}."


def spans(found: Placement) -> str:
    """Spans 2 NVLink domains on 2 nodes."""
    crossed = found.spread
    counts = [
        (crossed.nvlink_domains, "NVLink domain"),
        (crossed.sockets if crossed.nvlink_domains is None and crossed.nodes == 1 else None, "socket"),
        (crossed.nodes, "node"),
        (crossed.leaves if crossed.leaves != 1 else None, "leaf switch"),
    ]
    return "Spans " + " on ".join(_count(count, word) for count, word in counts if count is not None)


def place_words(place: Where, linked: bool) -> str:
    """A place in words: one NVLink domain, or 2 nodes of one leaf switch. `linked`: its GPUs have NVLink."""
    kind = ONE.get(place.kind, f"one {place.kind}")
    if place.parts == 1 or (place.kind in NODE_KINDS and not linked):
        return kind
    return f"{_count(place.parts, 'NVLink domain' if place.kind in NODE_KINDS else 'node')} of {kind}"


def _count(count: int, word: str) -> str:
    many = f"{word}es" if word.endswith("ch") else f"{word}s"
    return f"{count} {word if count == 1 else many}"


def _best(found: Placement, around: Graph, model: str) -> Row | None:
    if found.best is None:
        return None
    return {
        "kind": found.best.where.kind,
        "name": found.best.where.name,
        "gb_per_s": found.best.gb_per_s,
        "free_gpus": found.best.free,
        "crossed": asdict(spread(seats(around, found.best.gpus, model).values())),
    }


def _slowdown(found: Placement, traffic: Row) -> Row | None:
    """None if its links are quiet or were not measured: then there is no evidence that it communicates."""
    if found.slowdown is None or traffic["quiet"] is not False:
        return None
    return {
        "bandwidth_ratio": found.slowdown.bandwidth_ratio,
        "exposed_ratio_low": EXPOSED[0],
        "exposed_ratio_high": EXPOSED[1],
        "slower_low": found.slowdown.slow[0],
        "slower_high": found.slowdown.slow[1],
        "lost_ratio_low": found.slowdown.lost[0],
        "lost_ratio_high": found.slowdown.lost[1],
    }


def _traffic(store: Store, cluster: str, first: Row, devices: list[int], model: str) -> Row:
    """The link traffic of the first day, and whether it was quiet; None if too little was measured."""
    until_us = min(first["until_us"], first["at_us"] + TRAFFIC_US)
    words: Mapping[str, Any] = {"cluster": cluster, "from_us": first["at_us"], "until_us": until_us, "devices": devices}
    row = store.rows("topology/placement/traffic", **words)[0]
    enough = TRAFFIC_US_MIN * len(devices)
    link = row["link_ratio"] if (row["link_us"] or 0) >= enough else None
    pcie = row["pcie_bytes_per_s"] if (row["pcie_us"] or 0) >= enough else None
    linked = facts(model).link_bytes_per_s is not None
    busy = (link is not None and link >= QUIET_LINK_RATIO) or (pcie is not None and pcie >= QUIET_PCIE_BYTES_PER_S)
    known = pcie is not None and (link is not None or not linked)
    return {
        "nvlink_ratio": None if link is None else round(link, PLACES),
        "pcie_bytes_per_s": None if pcie is None else round(pcie),
        "quiet": False if busy else True if known else None,
    }


def _missing(
    store: Store, cluster: str, found: Placement, held: Collection[Seat], traffic: Row, advice: Advice
) -> list[Row]:
    """What is unknown, each with the fix."""
    nodes = {seat.around["node"]: seat.around for seat in held if "node" in seat.around}
    rows = [
        {"what": f"links of {node}", "fix": links_fix(cluster, node, advice)}
        for node in sorted(_unlinked(found, held, nodes))
    ]
    if found.reason == "domain":
        rows.append({"what": "the NVLink domain of its nodes", "fix": CLIQUE})
    elif found.where.kind == BEYOND or found.reason == "network":
        known = store.sql("select distinct node from node where cluster = $c and scheduler = 'kubernetes'", c=cluster)
        kubernetes = {row[0] for row in known}
        for node in sorted(node for node, has in nodes.items() if not {"leaf", "block"} & has.keys()):
            fix = network_fix(cluster, node, node in kubernetes, advice)
            rows.append({"what": f"place of {node} in the network", "fix": fix})
    if traffic["quiet"] is None and found.slowdown is not None:
        rows.append({"what": "what its links carried", "fix": COUNTERS})
    return rows[:MISSING_MAX]


def _unlinked(found: Placement, held: Iterable[Seat], nodes: Mapping[str, Mapping[str, str]]) -> set[str]:
    """The nodes whose links are unknown."""
    unlinked = {seat.around["node"] for seat in held if seat.island is None and "node" in seat.around}
    if found.reason == "links":
        unlinked |= {node for node, has in nodes.items() if "numa" not in has}
    return unlinked


def _sentence(reason: str) -> str:
    return f"Not graded: {reason}."
