"""Which teams are inferred from accounts and namespaces, in the answers of chargeback and ledger."""

from __future__ import annotations

from collections.abc import Sequence

from gpuwatch.core.clock import Window
from gpuwatch.store.database import Store


def inferred_teams(store: Store, window: Window, by: Sequence[str]) -> frozenset[str]:
    """Teams with time in the window that no ownership rule decides; none where the answer does not name teams."""
    if "team" not in by:
        return frozenset()
    rows = store.rows("billing/inferred_team", start_us=window.start_us, end_us=window.end_us)
    return frozenset(row["team"] for row in rows)


def fill_other_teams(store: Store) -> None:
    """Teams as they are under the other value of ownership_default, until the working tables are dropped."""
    store.run("billing/other_team")
