"""Unused MIG instances, and the profiles that would fit in their place, for the rule `mig-speculative`."""

from __future__ import annotations

import pyarrow as pa

from gpuwatch.capacity.waiting_requests import prepare as prepare_waits
from gpuwatch.core.clock import DAY_US, HOUR_US
from gpuwatch.hardware.mig_packing import own_name, slice_capacity
from gpuwatch.ledger.stranding import HELD_MARK
from gpuwatch.rules.rule import EvaluationScope
from gpuwatch.store.database import Store

WEEK_US = 7 * DAY_US
LAYOUTS_MAX = 4096
"""Pairs of a layout and a waiting profile that one evaluation examines."""
_SERVE = pa.schema(
    [
        ("model", pa.string()),
        ("parts", pa.list_(pa.string())),
        ("profile", pa.string()),
        ("serves", pa.int64()),
    ]
)


def serves(model: str | None, parts: tuple[str, ...], wanted: str | None) -> int:
    """How many more of a profile (None: whole GPUs) fit where the instances without a mark are removed first.

    0 where the profile could be had without that, where it is that of the idle instances, and where a layout is not known.
    """
    idle = [not part.endswith(HELD_MARK) for part in parts]
    if wanted is None:
        return int(all(idle))
    found = slice_capacity(
        model, tuple((part.removesuffix(HELD_MARK), free) for part, free in zip(parts, idle, strict=True))
    )
    if found is None:
        return 0
    name = own_name(found.geometry, wanted)
    return 0 if name is None or found.hosts(wanted) else found.reachable[name]


def prepare(store: Store, scope: EvaluationScope) -> None:
    """Creates room_wait, slice_week, mig_layout and mig_serve for the evaluated hours."""
    prepare_waits(store, scope)
    store.run(
        "advisor/mig_idle",
        cluster=scope.cluster,
        since_us=scope.since_us,
        until_us=scope.until_us,
        week_us=WEEK_US,
        before_us=WEEK_US - HOUR_US,
        held_max=scope.parameters["held_ratio_max"],
        known_us=int(scope.parameters["known_ratio_min"] * WEEK_US),
    )
    rows = [
        {**row, "serves": serves(row["model"], tuple(row["parts"]), row["profile"])}
        for row in store.rows("advisor/mig_parts", limit=LAYOUTS_MAX)
    ]
    with store.view("serve_row", pa.Table.from_pylist([row for row in rows if row["serves"]], schema=_SERVE)):
        store.run("advisor/mig_serve")
