"""Which teams are inferred from accounts and namespaces, in the answers of chargeback and ledger."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from gpuwatch.core.clock import Window
from gpuwatch.ledger.dimensions import parameters
from gpuwatch.store.database import Store

_USED = frozenset(("by_user", "by_queue", "by_namespace", "by_account", "by_job"))
_KEY = ("team", "user", "queue", "namespace", "account", "job", "words")


def inferred_teams(store: Store, window: Window, by: Sequence[str]) -> frozenset[str]:
    """Teams with time in the window that no ownership rule decides; none where the answer does not name teams."""
    if "team" not in by:
        return frozenset()
    rows = store.rows("billing/inferred_team", start_us=window.start_us, end_us=window.end_us)
    return frozenset(row["team"] for row in rows)


def inferred_rows(store: Store, window: Window, by: Sequence[str]) -> Callable[[Mapping[str, Any]], bool]:
    """Whether some of the time of a row of sums has a team that no ownership rule decides.

    Call within ledger.totals.working_tables, while its `run_word` is that of the question.
    """
    if "team" not in by:
        return lambda _: False
    asked = {name: value for name, value in parameters(window, by).items() if name in _USED}
    rows = store.rows("billing/inferred_row", start_us=window.start_us, end_us=window.end_us, **asked)
    found = {tuple(row[name] for name in _KEY) for row in rows}
    return lambda row: tuple(row[name] for name in _KEY) in found


def fill_other_teams(store: Store) -> None:
    """Teams as they are under the other value of ownership_default, until the working tables are dropped."""
    store.run("billing/other_team")
