"""The ledger: GPU time and cost by bucket, added up from its days, hours and minutes."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from typing import Any

from gpuwatch.billing import ledger_measures
from gpuwatch.billing.bucket_time import fill_bucket_time, fill_claimed_time
from gpuwatch.billing.funnel import funnel
from gpuwatch.billing.inferred_teams import Mark, inferred_rows
from gpuwatch.billing.kinds import fill_kinds
from gpuwatch.billing.records import BucketRow, Ledger
from gpuwatch.core.clock import DAY_US, HOUR_US, Window
from gpuwatch.core.errors import UsageError
from gpuwatch.core.money import CENT_PLACES, units_to_decimal
from gpuwatch.ledger.dimensions import PERIODS, check_dimensions, values
from gpuwatch.ledger.measures import AVOIDABLE, CLAIMABLE, NO_TIME
from gpuwatch.ledger.totals import SECOND_PLACES, Scale, Totals, page, question, scale_of, working_tables
from gpuwatch.state import State
from gpuwatch.store.database import Store

STEPS_US = (HOUR_US, DAY_US)
"""Step lengths of a ledger."""


def ledger(
    store: Store,
    state: State,
    window: Window,
    by: Sequence[str] = ("bucket",),
    cluster: str | None = None,
    teams: Collection[str] | None = None,
    *,
    pool: str | None = None,
    step_us: int | None = None,
    limit: int | None = None,
    offset: int = 0,
) -> Ledger:
    """GPU-seconds and cost by bucket and any of DIMENSIONS, ordered by step, group and bucket.

    `step_us` (one of STEPS_US) splits the window at whole UTC hours or days; a row's `start_us` is the start of its step,
    which may be before the start of the window. A bucket has one row per currency, and one for time without a rate.
    An hour in which a price changes is priced by the minutes before and after the change. `teams`, `pool`, `limit`,
    `offset` and prices as in chargeback. Raises UsageError for an unknown dimension or step.
    """
    dimensions = [name for name in by if name != "bucket"]
    check_dimensions(dimensions)
    if step_us is not None and step_us not in STEPS_US:
        raise UsageError(f"step of {step_us} us: use an hour or a day")
    with working_tables(store):
        scale = scale_of(store, window)
        asked = _asked(window, dimensions, cluster, teams, scale, pool, step_us)
        _fill_books(store, asked)
        return _ledger(store, scale, window, dimensions, asked, step_us, limit, offset)


def ledger_in_steps(
    store: Store,
    window: Window,
    step_us: int,
    cluster: str | None = None,
    teams: Collection[str] | None = None,
    *,
    pool: str | None = None,
) -> tuple[Ledger, Ledger]:
    """The ledger by team, and the one in steps without teams: the answers of two calls of `ledger`, from one reading of the books."""
    with working_tables(store):
        scale = scale_of(store, window)
        by_team = _asked(window, ("team",), cluster, teams, scale, pool, None)
        in_steps = _asked(window, (), cluster, teams, scale, pool, step_us)
        _fill_books(store, _asked(window, ("team",), cluster, teams, scale, pool, step_us))
        return (
            _ledger(store, scale, window, ("team",), by_team, None),
            _ledger(store, scale, window, (), in_steps, step_us),
        )


def _asked(
    window: Window,
    dimensions: Sequence[str],
    cluster: str | None,
    teams: Collection[str] | None,
    scale: Scale,
    pool: str | None,
    step_us: int | None,
) -> dict[str, object]:
    """The parameters of a ledger."""
    days = DAY_US if any(name in PERIODS for name in dimensions) else None
    asked = question(window, dimensions, cluster, teams, scale, pool=pool, step_us=step_us or days)
    return asked | {"steps": step_us is not None}


def _fill_books(store: Store, asked: Mapping[str, object]) -> None:
    """Fills the working tables that a ledger is added up from."""
    fill_kinds(store, asked)
    fill_bucket_time(store, asked)
    fill_claimed_time(store, asked)


def _ledger(
    store: Store,
    scale: Scale,
    window: Window,
    dimensions: Sequence[str],
    asked: Mapping[str, object],
    step_us: int | None,
    limit: int | None = None,
    offset: int = 0,
) -> Ledger:
    """A ledger of the working tables, which may keep teams and steps apart that it adds up."""
    store.run("billing/ledger_owned", **asked)
    store.run("billing/ledger_bucket", **asked)
    sums = store.rows("billing/funnel", **asked)
    whole, groups, claimed = ledger_measures.read(store, scale, asked, dimensions, limit)
    rows, following = page(store, scale, limit, offset, largest_first=False)
    totals = Totals.of(store.rows("billing/total"))
    inferred = inferred_rows(store, window, dimensions, rows)
    return Ledger(
        items=tuple(_bucket_row(row, dimensions, step_us, claimed, inferred) for row in rows),
        window=window,
        capacity_gpu_seconds=totals.gpu_seconds,
        cost=totals.cost,
        currency=totals.currency,
        unpriced_gpu_seconds=totals.unpriced_gpu_seconds,
        funnel=funnel(sums, totals, scale),
        measures=whole,
        groups=groups,
        by=tuple(dimensions),
        step_us=step_us,
        next_offset=following,
    )


def _bucket_row(
    row: Mapping[str, Any],
    by: Sequence[str],
    step_us: int | None,
    claimed: ledger_measures.Claimed,
    inferred: Callable[[Mapping[str, Any]], Mark],
) -> BucketRow:
    seconds = units_to_decimal(int(row["micros"]), SECOND_PLACES)
    if row["bucket"] == CLAIMABLE:
        avoidable = min(seconds, claimed.get(ledger_measures.key(row, by), NO_TIME))
    else:
        avoidable = seconds if row["bucket"] in AVOIDABLE else NO_TIME
    return BucketRow(
        group=values(row, by),
        bucket=row["bucket"],
        gpu_seconds=seconds,
        avoidable_gpu_seconds=avoidable,
        cost=None if row["lacks"] else units_to_decimal(int(row["cents"]), CENT_PLACES),
        currency=row["currency"],
        start_us=None if step_us is None else row["step"] * step_us,
        mark=inferred(row),
    )
