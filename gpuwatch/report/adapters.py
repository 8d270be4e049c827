"""What other parts of the product add to a report: FOCUS rows and budgets."""

from __future__ import annotations

from collections.abc import Collection
from io import BytesIO

import pyarrow.compute as pc

from gpuwatch.billing import budgets
from gpuwatch.billing.focus import export as focus_export
from gpuwatch.billing.focus.files import sink
from gpuwatch.core.clock import Window
from gpuwatch.report.facts import Budget
from gpuwatch.state import State
from gpuwatch.store.database import Store


def focus_files(store: Store, state: State, window: Window, teams: Collection[str | None]) -> dict[str | None, bytes]:
    """The FOCUS 1.2 rows of a window as CSV: a file for each of `teams`, and for the fleet where None is among them.

    The books are read once for all of them: a row is its team's in the very numbers that it has among all.
    """
    if not teams:
        return {}
    files = {team: BytesIO() for team in teams}
    targets = {team: sink(file, "csv", focus_export.DEFAULT_VERSION) for team, file in files.items()}
    named = sorted(team for team in teams if team is not None)
    only = None if None in targets else named
    for rows in focus_export.batches(store, state, window, focus_export.Exported(), teams=only):
        if None in targets:
            targets[None].write(rows)
        owners = set(pc.unique(rows["x_Team"]).to_pylist())
        for team in named:
            if team in owners:
                targets[team].write(rows.filter(pc.equal(rows["x_Team"], team)))
    for target in targets.values():
        target.close()
    return {team: file.getvalue() for team, file in files.items()}


def budget(store: Store, state: State, window: Window, team: str | None) -> Budget | None:
    """The budget that a team (None: the fleet) has for the period in which the window ends; None where none is set."""
    found = budgets.for_report(store, state, window, team)
    return None if found is None else Budget(**found)
