"""Where data of a cluster go: the process that holds the cell of the cluster, from any process of the fleet."""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable, Iterable, Sequence
from typing import TYPE_CHECKING

from gpuwatch.core.errors import NotHolder, StoreError
from gpuwatch.core.registry import LiveSource
from gpuwatch.state.cells import Cells, Place
from gpuwatch.state.lease import CELL, Leases
from gpuwatch.state.server import Server

if TYPE_CHECKING:
    from gpuwatch.service.config import Plan
    from gpuwatch.service.holding import Always
    from gpuwatch.service.publishing import Publishing
    from gpuwatch.service.roles import Role
    from gpuwatch.store.database import Store

FRESH_S = 2.0
"""How long the places of clusters are used before they are read again."""
NAMED_MAX = 10
"""Cells that a message names."""
log = logging.getLogger(__name__)


class Routing:
    """Used from several threads. `holds` says whether this process has the lease of `cell` now."""

    def __init__(self, cells: Cells, cell: str, holder: str, address: str, holds: Callable[[], bool]) -> None:
        self._cells, self._cell, self._holder, self._address, self._holds = cells, cell, holder, address, holds
        self._own: frozenset[str] = frozenset()
        """Clusters that this process has data of, or was the first to be sent data of."""
        self._of_others: dict[str, str] = {}
        self._lock = threading.Lock()
        self._places: Sequence[Place] = ()
        self._read_s = -FRESH_S

    def is_here(self, cluster: str) -> bool:
        """Whether this process takes data of a cluster, as far as it knows without asking the server."""
        return cluster in self._own and self._holds()

    def elsewhere(self, cluster: str) -> str | None:
        """The address of the process to send data of a cluster to; None: this one takes them.

        Raises NotHolder if nobody takes them now, StoreError if the server does not respond.
        """
        if self._holds():
            if cluster in self._own or (owner := self._cells.claim(cluster, self._cell)) == self._cell:
                with self._lock:
                    self._own |= {cluster}
                return None
            return self._reached(owner, cluster)
        places = self._fresh()
        owner = next((place.cell for place in places if place.cluster == cluster), self._cell)
        known = sorted({place.cell for place in places if place.held or place.cluster is not None})
        if not owner and len(known) == 1:
            owner = known[0]
        if owner:
            return self._reached(owner, cluster)
        raise NotHolder(_unknown(cluster, [place for place in places if place.cell in known]), "")

    def forget(self) -> None:
        """Reads the places again with the next question: an address did not answer."""
        with self._lock:
            self._read_s = -FRESH_S

    def settle(self, clusters: Iterable[str]) -> None:
        """Notes for all processes which clusters the cell of this one has data of."""
        own = self._own | frozenset(clusters)
        try:
            found = self._cells.settle(self._cell, self._holder, own) if self._holds() else self._of_others
        except StoreError as error:
            log.warning("the clusters of the cell were not noted", extra={"error": str(error)})
            found = self._of_others
        with self._lock:
            self._own, self._of_others = own, found

    def concerns(self) -> list[str]:
        """Clusters that another cell has too."""
        return [
            f"cluster {cluster} is that of cell {cell}, and this cell has data of it too: its GPU time would count twice; take "
            "one of them back with gpuwatch import --forget, or send one under another name"
            for cluster, cell in self._of_others.items()
        ]

    def close(self) -> None:
        """Closes the connections."""
        self._cells.close()

    def _reached(self, cell: str, cluster: str) -> str:
        place = next((place for place in self._fresh() if place.cell == cell), None)
        if place is None or not place.held or place.address == self._address:
            self.forget()
            last = "" if place is None else f"; the last one was {place.holder} at {place.address}"
            address = "" if place is None or place.address == self._address else place.address
            raise NotHolder(f"cluster {cluster} is that of cell {cell}, and no process holds it now{last}", address)
        return place.address

    def _fresh(self) -> Sequence[Place]:
        with self._lock:
            if time.monotonic() - self._read_s >= FRESH_S:
                self._places = self._cells.places()
                self._read_s = time.monotonic()
            return self._places


def routing_of(role: Role, plan: Plan, holding: Always) -> Routing | None:
    """The routing of a process that serves; None without a lake, with the state in a file, or for one that takes all data itself."""
    server = Server.of(plan.settings)
    if server is None or plan.lake is None or (role.analyses and holding.leases is None):
        return None
    return _routing(server, holding.leases, lambda: role.analyses and holding.valid)


def routing_meanwhile(leases: Leases) -> Routing:
    """The routing of a process that waits for a lease."""
    return _routing(leases.server, leases, lambda: False)


def keep_settled(routing: Routing | None, publishing: Publishing, sources: Iterable[LiveSource], store: Store) -> None:
    """Notes now, and after each publish, which clusters a store has records of, and which its sources will bring."""
    if routing is None:
        return
    to_come = [source.cluster for source in sources]

    def settle(store: Store) -> None:
        routing.settle({*(str(row["cluster"]) for row in store.rows("service/cluster_recorded")), *to_come})

    settle(store)
    publishing.on_published = settle


def _routing(server: Server, leases: Leases | None, holds: Callable[[], bool]) -> Routing:
    name, holder, address = ("", "", "") if leases is None else (leases.name, leases.holder, leases.address)
    return Routing(Cells(server), name.removeprefix(CELL) if name.startswith(CELL) else "", holder, address, holds)


def _unknown(cluster: str, places: list[Place]) -> str:
    if not places:
        return f"cluster {cluster}: no process holds a cell yet; start one with --role cell"
    cells = dict.fromkeys(f"{place.cell} ({place.address})" for place in places)
    named = ", ".join([*cells][:NAMED_MAX]) + (f" and {len(cells) - NAMED_MAX} more" if len(cells) > NAMED_MAX else "")
    return f"cluster {cluster}: no cell has it yet; send its first data to the cell that is to have it: {named}"
