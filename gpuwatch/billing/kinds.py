"""What device time of a window is counted by: spans, units with their prices, and the names and labels asked for of runs."""

from __future__ import annotations

from collections.abc import Mapping

from gpuwatch.store.database import Store


def fill_kinds(store: Store, parameters: Mapping[str, object]) -> None:
    """Fills the temporary tables of billing/kind and `run_word`, which is empty where no names or labels are asked for."""
    store.run("billing/kind", **parameters)
    if parameters["by_words"]:
        store.run("billing/run_word", **parameters)
    else:
        store.run("billing/no_run_word")
