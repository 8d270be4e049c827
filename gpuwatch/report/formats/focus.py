"""The charges of the week as FOCUS rows."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from io import BytesIO
from typing import TYPE_CHECKING

from gpuwatch.report.format_registry import store_format

if TYPE_CHECKING:
    from gpuwatch.core.clock import Window
    from gpuwatch.state import State
    from gpuwatch.store.database import Store


@store_format("focus", "focus.csv", "text/csv; charset=utf-8", order=5, label="FOCUS")
def focus(store: Store, state: State, window: Window, teams: Collection[str | None]) -> Mapping[str | None, bytes]:
    """FOCUS 1.2 as CSV, for billing tools. The rows are computed once: a team's file is an extract of the fleet's."""
    import pyarrow.compute as pc

    from gpuwatch.billing.focus import export
    from gpuwatch.billing.focus.files import sink

    files = {team: BytesIO() for team in teams}
    targets = {team: sink(file, "csv", export.DEFAULT_VERSION) for team, file in files.items()}
    named = sorted(team for team in teams if team is not None)
    only = None if None in targets else named
    for rows in export.batches(store, state, window, export.Exported(), teams=only):
        if None in targets:
            targets[None].write(rows)
        owners = set(pc.unique(rows["x_Team"]).to_pylist())
        for team in named:
            if team in owners:
                targets[team].write(rows.filter(pc.equal(rows["x_Team"], team)))
    for target in targets.values():
        target.close()
    return {team: file.getvalue() for team, file in files.items()}
