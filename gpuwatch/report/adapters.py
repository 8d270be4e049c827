"""What other parts of the product add to a report when they are there: FOCUS rows and budgets."""

from __future__ import annotations

from collections.abc import Callable, Collection
from importlib import import_module
from importlib.util import find_spec
from typing import Any

from gpuwatch.clock import Window
from gpuwatch.report.facts import Budget
from gpuwatch.state import State
from gpuwatch.store import Store


def focus_file(store: Store, state: State, window: Window, teams: Collection[str] | None) -> bytes | None:
    """The FOCUS 1.2 rows of a window as CSV; None where this version writes none."""
    write = _function("gpuwatch.focus", "report_csv")
    return None if write is None else bytes(write(store, state, window, teams))


def budget(store: Store, state: State, window: Window, team: str | None) -> Budget | None:
    """The budget that a team (None: the fleet) has for the period in which the window ends; None where none is set."""
    ask = _function("gpuwatch.budgets", "for_report")
    found = None if ask is None else ask(store, state, window, team)
    return None if found is None else Budget(**found)


def _function(module: str, name: str) -> Callable[..., Any] | None:
    if find_spec(module) is None:
        return None
    found: Callable[..., Any] | None = getattr(import_module(module), name, None)
    return found
