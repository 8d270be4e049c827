"""Which table of gpuwatch.toml an option belongs to, for messages about misplaced ones."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable

from gpuwatch.core.registry import live_kinds

HOMES_MAX = 3
"""Tables that a message names."""
_names: dict[str, set[str]] = defaultdict(set)
"""Option names by table as it is written: `[gpuwatch]`, `[[dcgm]]`."""


def note(table: str, names: Iterable[str]) -> None:
    """Records options of a table. Live sources do it as they read their tables."""
    _names[table].update(names)


def belongs(name: str, here: str) -> str | None:
    """`it belongs in [[dcgm]] or [[ray]]` for an option of other tables than `here`; None if no other table has it."""
    for kind in live_kinds().values():
        if f"[[{kind.table}]]" not in _names:
            kind.configure([{}], [])  # an empty table: it reads all its options
    homes = sorted(table for table, names in _names.items() if name in names and table != here)
    if not homes:
        return None
    more = f" and {len(homes) - HOMES_MAX} other tables" if len(homes) > HOMES_MAX else ""
    return f"it belongs in {' or '.join(homes[:HOMES_MAX])}{more}"
