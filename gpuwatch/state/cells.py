"""Which cell has a cluster, on the state's server: the first one that takes data of a cluster keeps it."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass

from gpuwatch.core.errors import StoreError
from gpuwatch.state.lease import CELL, NOW, cell_lease
from gpuwatch.state.server import Server
from gpuwatch.state.statements import Statements

CLUSTERS_MAX = 10_000
"""Clusters of all cells together."""
WAIT_S = 5.0
_CLAIM = (
    "insert into cluster_cell (cluster, cell)"
    f" select cast(:cluster as text), cast(:cell as text) where (select count(*) from cluster_cell) < {CLUSTERS_MAX}"
    " or exists (select 1 from cluster_cell where cluster = cast(:cluster as text))"
    " on conflict (cluster) do update set cell = cluster_cell.cell returning cell"
)
_SETTLE = (
    "insert into cluster_cell (cluster, cell)"
    " select distinct unnest(cast(:clusters as text[])), cast(:cell as text)"
    " where exists (select 1 from lease where name = :name and holder = :holder)"
    " on conflict (cluster) do nothing"
)
_OF_OTHERS = (
    "select cluster, cell from cluster_cell"
    " where cluster = any(cast(:clusters as text[])) and cell <> cast(:cell as text) order by 1"
)
_LISTED = (
    f"select substr(l.name, {len(CELL) + 1}) as cell, c.cluster, l.holder, l.address, l.until_us - {NOW} as left_us"
    f" from lease l left join cluster_cell c on l.name = '{CELL}' || c.cell where l.name like '{CELL}%'"
    f" order by 1, 2 limit {2 * CLUSTERS_MAX}"
)
_RELEASE = (
    "delete from cluster_cell c where cluster = cast(:cluster as text)"
    f" and not exists (select 1 from lease where name = '{CELL}' || c.cell and until_us > {NOW})"
)


@dataclass(frozen=True)
class Place:
    """A cluster of a cell, or a cell without any, and the process that holds the cell or held it last."""

    cell: str
    cluster: str | None
    holder: str
    address: str
    left_us: int
    """Until its lease ends; 0 or less: nobody holds the cell."""

    @property
    def held(self) -> bool:
        """Whether a process holds the cell."""
        return self.left_us > 0


class Cells:
    """Every method raises StoreError if the server does not respond."""

    def __init__(self, server: Server) -> None:
        self._statements = Statements(server, "cells", WAIT_S)

    def places(self) -> list[Place]:
        """All clusters with the cells that have them."""
        return [Place(*row) for row in self._statements.rows(_LISTED)]

    def claim(self, cluster: str, cell: str) -> str:
        """The cell that has the cluster: `cell`, if none had it before."""
        rows = self._statements.rows(_CLAIM, cluster=cluster, cell=cell)
        if not rows:
            raise StoreError(f"cluster {cluster}: the cells have {CLUSTERS_MAX} clusters already")
        return str(rows[0][0])

    def settle(self, cell: str, holder: str, clusters: Collection[str]) -> dict[str, str]:
        """Gives a cell the clusters that it has data of; those that other cells have stay theirs and are returned.

        It keeps the others that it has: what was sent of them may not be in a directory that was made from the lake. A process that
        no longer holds the cell changes nothing.
        """
        own = sorted(clusters)
        self._statements.changed(_SETTLE, cell=cell, name=cell_lease(cell), holder=holder, clusters=own)
        return dict(self._statements.rows(_OF_OTHERS, cell=cell, clusters=own))

    def release(self, cluster: str) -> bool:
        """Takes a cluster from a cell that nobody holds; False if there is no such one."""
        return bool(self._statements.changed(_RELEASE, cluster=cluster))

    def close(self) -> None:
        """Closes the connections."""
        self._statements.close()
