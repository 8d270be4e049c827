"""Repairs a store that was damaged by a wrong clock: undoes the damage, and brings the ledger up to date."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

from gpuwatch.analysis.pipeline import Progress, analyze
from gpuwatch.core.clock import HOUR_US
from gpuwatch.core.errors import LedgerDoesNotClose
from gpuwatch.ledger.hours import unclosed
from gpuwatch.settings import Settings
from gpuwatch.state import State
from gpuwatch.store.clock_damage import Damage, reopen, undo
from gpuwatch.store.database import Store

ROUNDS_MAX = 3
"""Analyses of one repair: each one may show hours that have to be computed again."""


@dataclass
class Repaired:
    """What a repair did in addition to undoing the damage."""

    recomputed: list[tuple[str, int]] = field(default_factory=list)
    """(cluster, hour) computed again without all of its samples, because the ledger did not close otherwise."""


def repair(
    store: Store,
    state: State,
    settings: Settings,
    damage: Damage,
    now_us: int,
    progress: Progress | None = None,
    detectors: Sequence[str] = (),
) -> Repaired:
    """Undoes the damage and analyzes, by default with all detectors. Hours that do not close are computed again from what is left of their samples.

    Raises LedgerDoesNotClose if the ledger still does not close.
    """
    done = Repaired()
    undo(store, damage)
    for attempt in range(ROUNDS_MAX):
        try:
            analyze(store, state, settings, now_us=now_us, detectors=detectors, progress=progress)
        except LedgerDoesNotClose:
            if attempt + 1 == ROUNDS_MAX:
                raise
        opened = _reopen_unclosed(store)
        if not opened:
            return done
        done.recomputed += opened
    return done


def _reopen_unclosed(store: Store) -> list[tuple[str, int]]:
    """Marks every hour that does not close to be computed again; returns them."""
    found: list[tuple[str, int]] = []
    spans = store.sql(
        "select cluster, min(from_us), max(until_us) from ("
        "select cluster, start_us as from_us, end_us as until_us from capacity"
        f" union all select cluster, hour_us, hour_us + {HOUR_US} from ledger_hour) group by 1 order by 1"
    )
    for cluster, from_us, until_us in spans:
        hours = sorted({row["hour_us"] for row in unclosed(store, cluster, from_us, until_us)})
        reopen(store, cluster, hours)
        found += [(cluster, hour_us) for hour_us in hours]
    return found
