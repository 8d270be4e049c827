"""Teams that ran something: names to choose from, without the cost of adding up the ledger."""

from __future__ import annotations

from collections.abc import Collection

from gpuwatch.core.clock import Window
from gpuwatch.store.database import Store

TEAMS_MAX = 1000


def holders(store: Store, window: Window, teams: Collection[str] | None = None) -> list[str]:
    """The teams with a run in the window, by name, at most TEAMS_MAX. `teams`: only of these."""
    listed = None if teams is None else list(teams)
    rows = store.rows("jobs/holder", start_us=window.start_us, end_us=window.end_us, teams=listed, limit=TEAMS_MAX)
    return [row["team"] for row in rows]
