"""What the store remembers of the server's clock: its steps, and its distance from the machine's uptime."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from gpuwatch.quality.own_clock import Step
from gpuwatch.store.database import Store

STEPS_MAX = 1_000
"""Steps that are kept, the newest."""


def add(store: Store, steps: Sequence[Step]) -> None:
    """Stores steps of the clock."""
    with store.transaction():
        for step in steps:
            store.run(
                "quality/add_clock_step",
                at_us=step.at_us,
                shift_us=step.shift_us,
                outcome=step.outcome,
                source=step.source,
                most=STEPS_MAX,
            )


def steps(store: Store) -> list[dict[str, Any]]:
    """The stored steps, the newest first."""
    return store.rows("quality/clock_step")


def mark(store: Store, boot_id: str) -> int | None:
    """How far the clock was ahead of the uptime of this boot when it was last trusted; None if unknown."""
    found = store.sql("select offset_us from clock_mark where boot_id = $boot_id and $boot_id <> ''", boot_id=boot_id)
    return int(found[0][0]) if found else None


def set_mark(store: Store, boot_id: str, offset_us: int) -> None:
    """Remembers how far the clock is ahead of the uptime of this boot."""
    with store.transaction():
        store.sql("delete from clock_mark")
        store.sql("insert into clock_mark values ($boot_id, $offset_us)", boot_id=boot_id, offset_us=offset_us)
