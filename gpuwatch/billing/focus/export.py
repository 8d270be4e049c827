"""FOCUS export: who pays what as rows of the FinOps Foundation's format, day by day into a file."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterator, Mapping
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass, field
from decimal import Decimal
from itertools import pairwise
from math import lcm
from typing import BinaryIO

import pyarrow as pa
import pyarrow.compute as pc

from gpuwatch.billing.focus.adjustments import Rest, adjustments, corrections
from gpuwatch.billing.focus.columns import ADJUSTMENT, CORRECTION, PLACES, PURCHASE, USAGE, VERSIONS
from gpuwatch.billing.focus.files import sink
from gpuwatch.billing.focus.tables import month_of, of_records, table
from gpuwatch.core.clock import DAY_US, Window, day_floor, rfc3339
from gpuwatch.core.errors import UsageError
from gpuwatch.ledger import measures
from gpuwatch.ledger.totals import AMOUNT_MAX, Scale, working_tables
from gpuwatch.policy.policy import Policies
from gpuwatch.policy.repository import load_policies
from gpuwatch.rates.card import missing_rate
from gpuwatch.state import State
from gpuwatch.store.database import Store

DEFAULT_VERSION = VERSIONS[0]
DAYS_MAX = 3_700
"""Days of one export: ten years."""
ORDER = [(name, "ascending") for name in ("kind", "origin_id", "price_id", "run_id", "x_Bucket")]
"""Of rows of sql/billing/focus/row.sql; what is absent comes last."""
MISSING_MAX = 20
"""Missing rates that are named."""


@dataclass
class Exported:
    """What an export held: rows, and GPU-seconds that are in none because no rate covers them, with what to do."""

    rows: int = 0
    missing: Counter[str] = field(default_factory=Counter)
    """Units without a price by the words of the missing rate."""
    unpriced_units: int = 0
    scale: Scale = field(default_factory=lambda: Scale(1, 0))

    @property
    def unpriced_gpu_seconds(self) -> Decimal:
        """Share-weighted, in whole microseconds."""
        return self.scale.gpu_seconds(self.unpriced_units)

    @property
    def warnings(self) -> list[str]:
        """One line each: how much is missing, and the rates that would price it."""
        if not self.unpriced_units:
            return []
        first = f"{self.unpriced_gpu_seconds:f} GPU-seconds have no price and are in no row; add the rates below"
        return [first, *(words for words, _ in self.missing.most_common(MISSING_MAX))]


def write(
    store: Store,
    state: State,
    window: Window,
    file: BinaryIO,
    *,
    version: str = DEFAULT_VERSION,
    form: str = "csv",
    cluster: str | None = None,
    pool: str | None = None,
    teams: Collection[str] | None = None,
) -> Exported:
    """Writes the charges of a window as FOCUS rows, a UTC day at a time.

    With `teams` only rows of those teams, in the very numbers that they have among all. Prices and teams are those of
    the last pricing (cost.price_all). Raises UsageError for an unknown version or form, or a window that is too long.
    """
    check_version(version)
    exported = Exported()
    target = sink(file, form, version)
    # Rows become text while the next day is worked out; one table waits at most.
    with ThreadPoolExecutor(1, "focus") as writer:
        written: Future[object] = writer.submit(int)
        for rows in batches(store, state, window, exported, version=version, cluster=cluster, pool=pool, teams=teams):
            written.result()
            written = writer.submit(target.write, rows)
        written.result()
    target.close()
    return exported


def batches(
    store: Store,
    state: State,
    window: Window,
    exported: Exported,
    *,
    version: str = DEFAULT_VERSION,
    cluster: str | None = None,
    pool: str | None = None,
    teams: Collection[str] | None = None,
) -> Iterator[pa.Table]:
    """Tables of rows as `write` writes them; `exported` is filled meanwhile."""
    asked = {"cluster": cluster, "pool": pool, "teams": None if teams is None else sorted(teams)}
    policies = load_policies(state)
    with working_tables(store):
        scale, days = _scale(store, window)
        exported.scale = scale
        store.run("billing/focus/place")
        for day in days:
            for rows in _day(store, day, scale, version, policies, asked, exported):
                exported.rows += rows.num_rows
                yield rows
        rest = Rest(store, state, window, policies, days, cluster=cluster, pool=pool, teams=teams)
        for kind, records in ((ADJUSTMENT, adjustments(rest)), (CORRECTION, corrections(rest))):
            for start_us, some in records.items():
                rows = table(of_records(some), version, kind, month_of(start_us), {})
                exported.rows += rows.num_rows
                yield rows
        store.run("billing/focus/drop")


def check_version(version: str) -> None:
    """Raises UsageError for a version that is not written."""
    if version not in VERSIONS:
        raise UsageError(f"--focus-version {version}: unknown; use {' or '.join(VERSIONS)}")


def _day(
    store: Store,
    day: Window,
    scale: Scale,
    version: str,
    policies: Policies,
    asked: Mapping[str, object],
    exported: Exported,
) -> Iterator[pa.Table]:
    numbers = {
        "from_us": day.start_us,
        "to_us": day.end_us,
        "scale": scale.shares,
        "places": scale.places,
        "cost_den": str(9 * scale.shares * 10**scale.places),
        "price_one": str(10**scale.places),
    }
    measures.prepare(store)
    store.run("billing/focus/day", **numbers, **asked)
    month, more = month_of(day.start_us), {"x_Policy": policies.at(day_floor(day.start_us)).name}
    rows = store.table("billing/focus/row", **numbers, **asked).combine_chunks()
    rows = rows.take(pc.sort_indices(rows, ORDER))
    places = [pc.sum(pc.less(rows["kind"], kind)).as_py() or 0 for kind in (1, 2, 3, 4)]
    usage, bought, unpriced = (rows.slice(first, last - first) for first, last in pairwise(places))
    for same, some in ((USAGE, usage), (PURCHASE, bought)):
        if some.num_rows:
            yield table(some, version, same, month, more)
    for row in unpriced.select(["x_Cluster", "x_Pool", "x_GpuModel", "x_MigProfile", "first_us", "units"]).to_pylist():
        exported.unpriced_units += int(row["units"])
        words = missing_rate(
            row["x_Cluster"], row["x_Pool"], row["x_GpuModel"] or "", row["x_MigProfile"], row["first_us"]
        )
        exported.missing[words] += int(row["units"])


def _scale(store: Store, window: Window) -> tuple[Scale, list[Window]]:
    """What a window's money is counted in, and the parts of days in which there was anything."""
    found = store.rows("billing/focus/scale", start_us=window.start_us, end_us=window.end_us)[0]
    prices = [Decimal(text) for text in found["prices"] or ()]
    places = max((-int(price.as_tuple().exponent) for price in prices), default=0)
    scale = Scale(lcm(1, *(found["share_dens"] or ())), max(places, 0))
    # The largest product of sql/billing/focus/day.sql: a day of a GPU in units, a price, and 2 x 2500.
    highest = int(max(prices, default=Decimal(0)).scaleb(scale.places))
    if max(DAY_US * scale.shares * highest * 5000, 2 * DAY_US * scale.shares * 10**PLACES) > AMOUNT_MAX:
        raise UsageError("window: its prices and shares have too many decimals to be added up exactly")
    if found["first_us"] is None:
        return scale, []
    start_us, end_us = max(window.start_us, found["first_us"]), min(window.end_us, found["last_us"])
    if end_us - start_us > DAYS_MAX * DAY_US:
        raise UsageError(
            f"window: {rfc3339(start_us)} to {rfc3339(end_us)} is more than {DAYS_MAX} days; ask for a part"
        )
    midnights = range(day_floor(start_us), end_us, DAY_US)
    # The window cuts its first and last day, what is known of the fleet does not.
    return scale, [Window(max(day, window.start_us), min(day + DAY_US, window.end_us)) for day in midnights]
