"""The cluster of a row of sacct. Pure."""

from __future__ import annotations

from collections.abc import Mapping

from gpuwatch.collectors.slurm.text import known
from gpuwatch.core.model import Source


class ClusterColumn:
    """Decides the cluster of each row: the one that the user named, or else the row's column Cluster (`sacct -M`)."""

    def __init__(self, source: Source) -> None:
        self._source = source
        self._first: str | None = None

    def of(self, fields: Mapping[str, str]) -> str:
        """Raises ValueError if the file holds several clusters and the user named one: their job numbers would collide."""
        stated = known(fields.get("cluster"))
        if stated is None:
            return self._source.cluster
        if not self._source.cluster_given:
            return stated
        self._first = self._first or stated
        if stated != self._first:
            raise ValueError(
                "Cluster differs from the file's first, and --cluster names one for all: import without --cluster, "
                "or one file for each cluster"
            )
        return self._source.cluster
