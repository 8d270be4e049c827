"""Files that are imported into a store one after the other, and the GPU-hours that come of them."""

from __future__ import annotations

from pathlib import Path

from gpuwatch.analysis.pipeline import analyze
from gpuwatch.core.clock import HOUR_US
from gpuwatch.imports.files import import_paths
from gpuwatch.settings import Settings
from gpuwatch.state import State
from gpuwatch.store.database import Store

NOW_US = 1_767_225_600_000_000
"""Weeks after everything in the files."""


class Desk:
    """An empty store, and the folder from which texts are imported into it as files of cluster c1."""

    def __init__(self, folder: Path) -> None:
        self.store, self.state, self.folder = Store.open(None), State.open("sqlite://"), folder

    def put(self, kind: str, text: str) -> None:
        path = self.folder / f"{len(list(self.folder.iterdir()))}.txt"
        path.write_text(text)
        import_paths(self.store, self.state, kind, [path], cluster="c1", now_us=NOW_US)

    def hours_by(self, name: str) -> dict[str, float]:
        """GPU-hours of each run, by its `job_id` or `name`."""
        # No rule changes who held what: one stands for all.
        analyze(self.store, self.state, Settings(), now_us=NOW_US, detectors=["blind-spot"])
        rows = self.store.sql(
            f"""select r.{name}, sum((s.end_us - s.start_us) * s.share_num / s.share_den) / $hour
            from segment s join run r using (run_id) group by all""",
            hour=HOUR_US,
        )
        return dict(sorted(rows))

    def close(self) -> None:
        self.store.close()
        self.state.close()
