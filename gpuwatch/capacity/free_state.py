"""Free GPUs and MIG slices of each cluster at one instant, and where they are, from the ledger."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from fractions import Fraction
from functools import lru_cache
from typing import Any

import pyarrow as pa

from gpuwatch.capacity.fleet import STALE_US
from gpuwatch.core.clock import rfc3339
from gpuwatch.hardware.links import board
from gpuwatch.hardware.mig_packing import SliceCapacity, slice_capacity
from gpuwatch.store import remembered
from gpuwatch.store.database import Store

PRICES_MAX = 1024
"""Distinct prices whose number is remembered."""

ASK = "Choose an instant within the ledger, or import what is missing and analyze it."

_END = pa.schema([("cluster", pa.string()), ("as_of_us", pa.int64()), ("at_us", pa.int64())])

Row = Mapping[str, Any]


@dataclass(frozen=True)
class Gpu:
    """A physical GPU in service."""

    name: str
    pool: str | None
    model: str | None
    node: str
    """Its node; a device without a known node is its own."""
    price: Fraction | None
    """Of a GPU-hour; None where no rate covers it."""
    currency: str | None
    leaf: str | None = None
    """Leaf switch or block; None unknown."""
    nvlink: str | None = None
    """What it reaches over NVLink: an island of its node, a domain over nodes, or itself alone; None unknown."""
    domain: str | None = None
    """The NVLink domain over several nodes, for models whose NVLink leaves the node."""
    free_milli: int = 0
    """Unallocated thousandths; 0 for a partitioned GPU."""
    partitioned: bool = False
    room: SliceCapacity | None = field(default=None, compare=False)
    """What fits on it, where it is partitioned and that is known."""


@dataclass(frozen=True)
class Cluster:
    """The GPUs of a cluster that are in service at an instant."""

    name: str
    as_of_us: int
    gpus: tuple[Gpu, ...]
    node_gpus_max: int = 1
    """GPUs of its largest node, in service or not."""

    @property
    def whole(self) -> list[Gpu]:
        """Those that are not partitioned."""
        return [gpu for gpu in self.gpus if not gpu.partitioned]

    @property
    def partitioned(self) -> list[Gpu]:
        """Those with MIG slices."""
        return [gpu for gpu in self.gpus if gpu.partitioned]


def instants(
    store: Store, at_us: int, cluster: str | None = None, exact: bool = False
) -> tuple[pa.Table, dict[str, str]]:
    """A row per cluster: the evaluated instant (no later than its ledger is complete) and the requested one.
    Also the clusters with nothing known then, and why: `at_us` is before their ledger, or, with `exact`,
    behind them.
    """
    ends = store.rows("capacity/fleet_end", stale_us=STALE_US)
    begins = dict(store.sql("select cluster, min(start_us) from capacity group by cluster"))
    rows, unknown = [], {}
    for end in ends:
        name, as_of_us = end["cluster"], end["as_of_us"]
        if as_of_us is None or cluster not in (None, name):
            continue
        if at_us < begins.get(name, 0):
            unknown[name] = f"The ledger begins {rfc3339(begins[name])}, after the requested instant. {ASK}"
        elif exact and at_us > as_of_us + STALE_US:
            unknown[name] = f"The ledger ends {rfc3339(as_of_us)}, before the requested instant. {ASK}"
        else:
            rows.append({"cluster": name, "as_of_us": min(as_of_us, at_us), "at_us": at_us})
    return pa.Table.from_pylist(rows, schema=_END), unknown


def clusters(store: Store, ends: pa.Table, rows: Mapping[str, dict[str, list[Row]]] | None = None) -> list[Cluster]:
    """The clusters of `instants`, by name. A GPU is free as GET /fleet has it: in service and unallocated.

    `rows`: those of `rows_at`, where the caller has them.
    """
    found = rows_at(store, ends) if rows is None else rows
    sizes: dict[tuple[str, str], int] = defaultdict(int)
    for cluster, gpus in found.items():
        for devices in gpus.values():
            if devices[0]["node"] is not None:
                sizes[cluster, devices[0]["node"]] += 1
    return [
        Cluster(
            end["cluster"],
            end["as_of_us"],
            tuple(
                _gpu(devices, sizes.get((end["cluster"], devices[0]["node"]), 1))
                for devices in found.get(end["cluster"], {}).values()
                if not all(one["out_of_service"] for one in devices)
            ),
            max((count for (name, _), count in sizes.items() if name == end["cluster"]), default=1),
        )
        for end in ends.to_pylist()
    ]


def rows_at(store: Store, ends: pa.Table) -> dict[str, dict[str, list[Row]]]:
    """The rows of capacity/gpu by cluster and GPU: one a GPU, or one a slice."""
    rows = remembered.rows(store, "capacity/gpu", {"cluster_end": ends}, stale_us=STALE_US)
    found: dict[str, dict[str, list[Row]]] = defaultdict(lambda: defaultdict(list))
    for row in rows:
        found[row["cluster"]][row["gpu"]].append(row)
    return found


def _gpu(devices: list[Row], of_node: int) -> Gpu:
    """One GPU of its row, or of those of its slices."""
    first = devices[0]
    slices = [one for one in devices if one["gi"] >= 0]
    domain = (first["nvlink_domain"] or None) if board(first["model"]).multi_node else None
    own = first["gpu"] if first["links_known"] or of_node == 1 else None
    price, currency = next(
        ((_price(one["price"]), one["currency"]) for one in devices if one["price"] is not None), (None, None)
    )
    return Gpu(
        name=first["gpu"],
        pool=first["pool"],
        model=first["model"],
        node=first["node"] or first["gpu"],
        price=price,
        currency=currency,
        leaf=first["leaf"],
        nvlink=domain or first["island"] or own,
        domain=domain,
        free_milli=0 if slices else first["free_milli"],
        partitioned=bool(slices),
        room=_room(first["model"], slices) if slices else None,
    )


@lru_cache(PRICES_MAX)
def _price(text: str) -> Fraction:
    return Fraction(text)


def _room(model: str | None, slices: Iterable[Row]) -> SliceCapacity | None:
    """What the slices of a GPU leave free. A slice that is out of service is not free."""
    return slice_capacity(
        model, tuple((str(one["profile"]), not one["held"] and not one["out_of_service"]) for one in slices)
    )
