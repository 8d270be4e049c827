"""What records say of nodes: what they fit, and how many CPUs and how much memory are free on them."""

from __future__ import annotations

from typing import Any

from gpuwatch.store import remembered
from gpuwatch.store.database import Store
from gpuwatch.topology.node_fit import Place, place_of


def places(store: Store, cluster: str, until_us: int) -> list[Place]:
    """The nodes of a cluster, and its GPUs without one, by the last records before an instant."""
    rows = remembered.rows(store, "topology/placement/node_fit", cluster=cluster, until_us=until_us)
    return [place_of(row) for row in rows]


def keep_room(store: Store, cluster: str, from_us: int, until_us: int) -> None:
    """Makes the temporary table node_room: what was free of CPUs and memory in a window."""
    store.keep_file("node_room", "topology/placement/node_room", cluster=cluster, from_us=from_us, until_us=until_us)


def room_before(store: Store, cluster: str, at_us: int) -> dict[str, tuple[int | None, int | None]]:
    """Thousandths of CPUs and bytes of memory that were free on each node just before an instant; None: not known."""
    rows = remembered.rows(store, "topology/placement/node_room", cluster=cluster, from_us=at_us - 1, until_us=at_us)
    return {row["place"]: (row["cpu_milli"], row["memory_bytes"]) for row in rows}


def room_sources(store: Store, cluster: str, from_us: int, until_us: int) -> dict[str, dict[str, Any]]:
    """By scheduler, which records of CPUs and memory are missing in a window."""
    rows = remembered.rows(
        store, "topology/placement/room_sources", cluster=cluster, from_us=from_us, until_us=until_us
    )
    return {row["scheduler"]: row for row in rows}
