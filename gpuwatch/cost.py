"""What it cost and who pays: the books times prices, exact until it is published."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from decimal import Decimal
from typing import Any

import pyarrow as pa

from gpuwatch.books import (
    DIMENSIONS,
    SECOND_PLACES,
    Scale,
    Totals,
    check_dimensions,
    page,
    question,
    scale_of,
    working_tables,
)
from gpuwatch.clock import DAY_US, HOUR_US, Window
from gpuwatch.errors import UsageError
from gpuwatch.ledger import HELD_BUCKETS
from gpuwatch.money import CENT_PLACES, units_to_decimal
from gpuwatch.rates import missing_rate, price_spans
from gpuwatch.state import State
from gpuwatch.store import Store
from gpuwatch.teams import resolve_many

__all__ = ["DIMENSIONS", "chargeback", "check_dimensions", "ledger", "price", "price_all"]

FAR_PAST_US, FAR_FUTURE_US = -(2**62), 2**62
"""Ends of a price that holds for ever."""
STEPS_US = (HOUR_US, DAY_US)
"""Lengths of the steps in which a ledger can be told."""
IDLE_BUCKETS = ("unobserved", "hoarded")
"""Allocated time in which nothing was seen to run."""
EFFECTIVE_BUCKETS = ("memory_roof", "compute")

_PRICE = pa.schema(
    [
        ("cluster", pa.string()),
        ("device_id", pa.int64()),
        ("profile", pa.string()),
        ("start_us", pa.int64()),
        ("end_us", pa.int64()),
        ("usd_per_gpu_hour", pa.string()),
        ("currency", pa.string()),
        ("pricing", pa.string()),
    ]
)


@dataclass(frozen=True)
class Charge:
    """One published row: `cost` is rounded so that the rows add up to the total; `cost_exact` is not rounded.

    `cost` is None where no rate covers the time; `error` then says which rate is missing.
    """

    group: dict[str, str | None]
    kind: str
    gpu_seconds: Decimal
    cost: Decimal | None
    cost_exact: Decimal | None
    currency: str | None
    error: str | None


@dataclass(frozen=True)
class Chargeback:
    """Charges of a window and the totals of all of them; `cost` is None where currencies differ."""

    items: tuple[Charge, ...]
    window: Window
    gpu_seconds: Decimal
    cost: Decimal | None
    currency: str | None
    unpriced_gpu_seconds: Decimal
    by: tuple[str, ...]
    next_offset: int | None
    """Where the next page starts, None after the last row."""


@dataclass(frozen=True)
class BucketRow:
    """GPU-seconds (share-weighted) of one bucket in one group, and what they cost.

    `cost` is None where no rate covers the time. `start_us` is the start of the step, None without steps.
    """

    group: dict[str, str | None]
    bucket: str
    gpu_seconds: Decimal
    cost: Decimal | None
    currency: str | None
    start_us: int | None


@dataclass(frozen=True)
class Amount:
    """GPU-seconds (share-weighted) and their cost; what has no rate costs nothing here, None: currencies differ."""

    gpu_seconds: Decimal
    cost: Decimal | None


@dataclass(frozen=True)
class Ledger:
    """The books of a window; `capacity_gpu_seconds` is the sum of all rows, `cost` None where currencies differ.

    `funnel`: from what is owned (total) to what a source measures (reporting), is held by somebody and measured
    (allocated), was seen to run (active), and works at a roof of the GPU (effective).
    """

    items: tuple[BucketRow, ...]
    window: Window
    capacity_gpu_seconds: Decimal
    cost: Decimal | None
    currency: str | None
    unpriced_gpu_seconds: Decimal
    funnel: dict[str, Amount]
    by: tuple[str, ...]
    step_us: int | None
    next_offset: int | None
    """Where the next page starts, None after the last row."""


def price(store: Store, state: State, cluster: str, *, force: bool = False) -> None:
    """Computes the price spans of every device and the team of every run of a cluster, when anything changed."""
    versions = (state.card_version("rates"), state.card_version("teams"))
    known = store.sql("select rate_version, team_version from priced where cluster = $c", c=cluster)
    if known and tuple(known[0]) == versions and not force:
        return
    rates, rules = state.rates(), state.team_rules()
    classes: dict[tuple[Any, ...], list[int]] = defaultdict(list)
    for device_id, pool, model, profile in store.sql(
        """select distinct d.device_id, d.pool, d.model, s.profile
        from device d join segment s on s.device_id = d.device_id and s.cluster = d.cluster
        where d.cluster = $c""",
        c=cluster,
    ):
        classes[(pool, model, profile)].append(device_id)
    rows: list[dict[str, object]] = []
    for (pool, model, profile), devices in classes.items():
        for start_us, end_us, rate in price_spans(rates, cluster, pool, model or "", profile):
            rows += [
                {
                    "cluster": cluster,
                    "device_id": device_id,
                    "profile": profile,
                    "start_us": max(start_us, FAR_PAST_US),
                    "end_us": FAR_FUTURE_US if end_us is None else end_us,
                    "usd_per_gpu_hour": None if rate is None else f"{rate.usd_per_gpu_hour:f}",
                    "currency": None if rate is None else rate.currency,
                    "pricing": None if rate is None else rate.pricing,
                }
                for device_id in devices
            ]
    owners = store.table("cost/owner", cluster=cluster)
    resolved = resolve_many(rules, owners).select(["cluster", "run_id", "team", "team_why"])
    with (
        store.view("price_rows", pa.Table.from_pylist(rows, schema=_PRICE)),
        store.view("team_rows", resolved),
        store.transaction(),
    ):
        store.run("cost/replace_prices", cluster=cluster, rate_version=versions[0], team_version=versions[1])


def price_all(store: Store, state: State) -> None:
    """Prices every cluster whose rate card or ownership rules have changed."""
    for (cluster,) in store.sql("select distinct cluster from device order by 1"):
        price(store, state, cluster)


def chargeback(
    store: Store,
    state: State,
    window: Window,
    by: Sequence[str] = ("team",),
    cluster: str | None = None,
    teams: Collection[str] | None = None,
    *,
    limit: int | None = None,
    offset: int = 0,
) -> Chargeback:
    """Who pays what in a window, by any of DIMENSIONS: the dearest rows first, what nobody held last.

    With `teams` only the rows of those teams exist; `__platform__` is one only where it is named. Amounts and totals
    are of all rows, of which `limit` from `offset` on are returned. Prices and teams are those of the last pricing
    (price_all): this reads and never writes. Raises UsageError for an unknown dimension, or a window whose money
    does not fit.
    """
    check_dimensions(by)
    with working_tables(store):
        scale = scale_of(store, window)
        asked = question(window, by, cluster, teams, scale)
        store.run("cost/kind", **asked)
        store.run("cost/charge", **asked)
        sums = store.rows("cost/total")
        rows, following = page(store, scale, limit, offset, dearest_first=True)
    totals = Totals.of(sums, scale)
    return Chargeback(
        items=tuple(_charge(row, by, scale) for row in rows),
        window=window,
        gpu_seconds=totals.gpu_seconds,
        cost=totals.cost,
        currency=totals.currency,
        unpriced_gpu_seconds=totals.unpriced_gpu_seconds,
        by=tuple(by),
        next_offset=following,
    )


def ledger(
    store: Store,
    state: State,
    window: Window,
    by: Sequence[str] = ("bucket",),
    cluster: str | None = None,
    teams: Collection[str] | None = None,
    *,
    step_us: int | None = None,
    limit: int | None = None,
    offset: int = 0,
) -> Ledger:
    """GPU-seconds and cost by bucket, and by any of DIMENSIONS beside it; in order of step, group and bucket.

    `step_us` (one of STEPS_US) cuts the window at whole UTC hours or days; a row's `start_us` is the start of its step,
    which for the first may lie before the window. A bucket has a row for each currency, and one for what has no rate.
    The cost of an hour in which a price changes is that of the minutes on either side. `teams`, `limit`, `offset` and
    prices as in chargeback. Raises UsageError for an unknown dimension or step.
    """
    dimensions = [name for name in by if name != "bucket"]
    check_dimensions(dimensions)
    if step_us is not None and step_us not in STEPS_US:
        raise UsageError(f"step of {step_us} us: use an hour or a day")
    with working_tables(store):
        scale = scale_of(store, window)
        asked = question(window, dimensions, cluster, teams, scale)
        store.run("cost/kind", **asked)
        store.run("reports/ledger", **asked, step_us=step_us)
        sums = store.rows("reports/funnel", **asked)
        rows, following = page(store, scale, limit, offset, dearest_first=False)
    totals = Totals.of(sums, scale)
    return Ledger(
        items=tuple(_bucket_row(row, dimensions, step_us) for row in rows),
        window=window,
        capacity_gpu_seconds=totals.gpu_seconds,
        cost=totals.cost,
        currency=totals.currency,
        unpriced_gpu_seconds=totals.unpriced_gpu_seconds,
        funnel=_funnel(sums, scale),
        by=tuple(dimensions),
        step_us=step_us,
        next_offset=following,
    )


def _charge(row: Mapping[str, Any], by: Sequence[str], scale: Scale) -> Charge:
    lacks = row["lacks"]
    missing = (
        missing_rate(row["cluster"], row["pool"], row["gpu_model"] or "", row["mig_profile"], row["first_us"])
        if lacks
        else None
    )
    return Charge(
        group={name: row[name] for name in by},
        kind="allocated" if row["held"] else "platform",
        gpu_seconds=units_to_decimal(int(row["micros"]), SECOND_PLACES),
        cost=None if lacks else units_to_decimal(int(row["cents"]), CENT_PLACES),
        cost_exact=None if lacks else scale.money_exact(int(row["amount"])),
        currency=row["currency"],
        error=missing,
    )


def _bucket_row(row: Mapping[str, Any], by: Sequence[str], step_us: int | None) -> BucketRow:
    return BucketRow(
        group={name: row[name] for name in by},
        bucket=row["bucket"],
        gpu_seconds=units_to_decimal(int(row["micros"]), SECOND_PLACES),
        cost=None if row["lacks"] else units_to_decimal(int(row["cents"]), CENT_PLACES),
        currency=row["currency"],
        start_us=None if step_us is None else row["step"] * step_us,
    )


def _funnel(sums: Iterable[Mapping[str, Any]], scale: Scale) -> dict[str, Amount]:
    rows = list(sums)
    held = [row for row in rows if row["bucket"] in HELD_BUCKETS]
    steps = {
        "total": rows,
        "reporting": [row for row in rows if row["reporting"]],
        "allocated": [row for row in held if row["reporting"]],
        "active": [row for row in held if row["bucket"] not in IDLE_BUCKETS],
        "effective": [row for row in held if row["bucket"] in EFFECTIVE_BUCKETS],
    }
    one_currency = Totals.of(rows, scale)
    amounts = {}
    for name, part in steps.items():
        sum_ = Totals.of(part, scale)
        amounts[name] = Amount(sum_.gpu_seconds, None if one_currency.cost is None else sum_.cost)
    return amounts
