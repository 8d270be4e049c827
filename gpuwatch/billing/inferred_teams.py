"""Which teams are inferred from accounts and namespaces, in the answers of chargeback and ledger."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

from gpuwatch.core.clock import Window
from gpuwatch.ledger.dimensions import parameters

if TYPE_CHECKING:
    from gpuwatch.store.database import Store

_USED = frozenset(("by_user", "by_queue", "by_namespace", "by_account", "by_job", "by_run"))
JOBS_MAX = 1000
"""Jobs that are looked up by name; for more, all of the window are read."""
_KEY = ("team", "user", "queue", "namespace", "account", "job", "words")


def inferred_teams(store: Store, window: Window, by: Sequence[str]) -> frozenset[str]:
    """Teams with time in the window that no ownership rule decides; none where the answer does not name teams."""
    if "team" not in by:
        return frozenset()
    rows = store.rows("billing/inferred/team", start_us=window.start_us, end_us=window.end_us)
    return frozenset(row["team"] for row in rows)


class Mark(NamedTuple):
    """Whether no ownership rule decides the team of some time of a row, and whether a rule decides the rest."""

    inferred: bool
    partly: bool


DECIDED = Mark(False, False)


def inferred_rows(
    store: Store, window: Window, by: Sequence[str], shown: Sequence[Mapping[str, Any]], *, by_run: bool = False
) -> Callable[[Mapping[str, Any]], Mark]:
    """The mark of each of the `shown` rows of sums. `by_run` as in ledger.totals.question.

    Call within ledger.totals.working_tables, while its `run_word` is that of the question.
    """
    if "team" not in by:
        return lambda _: DECIDED
    words = parameters(window, by)
    asked = {name: value for name, value in words.items() if name in _USED}
    summed = not (by_run or words["by_words"] or "job" in by)
    jobs = (
        None
        if "job" not in by or len(shown) > JOBS_MAX
        else sorted({row["job"] for row in shown if row["job"] is not None})
    )
    span = {"start_us": window.start_us, "end_us": window.end_us}
    if summed:
        store.run("views/whole_days", **span)
    rows = store.rows("billing/inferred/row", **span, summed=summed, jobs=jobs, **asked)
    found = {tuple(row[name] for name in _KEY): Mark(True, row["partly"]) for row in rows}
    return lambda row: found.get(tuple(row[name] for name in _KEY), DECIDED)


def fill_other_teams(store: Store) -> None:
    """Teams as they are under the other value of ownership_default, until the working tables are dropped."""
    store.run("billing/inferred/other")
