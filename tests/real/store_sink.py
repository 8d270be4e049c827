"""A sink that keeps what a live source commits in a store in memory."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from gpuwatch.core.clock import SECOND_US
from gpuwatch.core.model import CLAIM, Points, Records, Rejects
from gpuwatch.ledger import attribution
from gpuwatch.settings import Settings
from gpuwatch.store.database import Store


class StoreSink:
    """Appends what a source commits to a store; remembers what the source says of itself."""

    def __init__(self) -> None:
        self.store = Store.open(None, threads=1)
        self.claims = 0
        self.errors: list[str] = []

    async def commit(self, source: str, batches: Sequence[Records | Points], rejects: Rejects | None = None) -> None:
        assert not rejects or not rejects.total, rejects
        with self.store.transaction():
            for batch in batches:
                self.store.append(batch)
                self.claims += batch.rows.num_rows if isinstance(batch, Records) and batch.table == "claim" else 0

    def succeeded(self, source: str, at_us: int, samples: int) -> None:
        assert samples > 0

    def failed(self, source: str, at_us: int, error: str) -> None:
        self.errors.append(error)

    async def open_claims(self, cluster: str, scheduler: str) -> list[dict[str, Any]]:
        columns = ", ".join(f"arg_max({name}, evidence_us)" for name in CLAIM.names)
        rows = self.store.sql(
            f"select {columns} from claim where cluster = $cluster and scheduler = $scheduler "
            "group by job_id, run_key, node, profile having max(end_us) is null",
            cluster=cluster,
            scheduler=scheduler,
        )
        return [dict(zip(CLAIM.names, row, strict=True)) for row in rows]

    async def open_rows(self, cluster: str, table: str) -> list[dict[str, Any]]:
        return []

    def gpu_seconds(self) -> dict[str, float]:
        """GPU-seconds of every job after attribution."""
        attribution.attribute(self.store, "c1", Settings())
        rows = self.store.sql(
            "select r.job_id, sum((s.end_us - s.start_us) * s.share_num / s.share_den) from segment s join run r using (run_id) "
            "group by r.job_id"
        )
        return {job: us / SECOND_US for job, us in rows}
