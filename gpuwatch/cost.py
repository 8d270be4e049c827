"""What it cost and who pays: segments times prices, exact until it is published."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass
from decimal import Decimal
from fractions import Fraction
from typing import Any

import pyarrow as pa

from gpuwatch.clock import HOUR_US, SECOND_US, Window
from gpuwatch.errors import UsageError
from gpuwatch.ledger import BUCKETS
from gpuwatch.money import fraction_to_decimal, largest_remainder
from gpuwatch.rates import missing_rate, price_spans
from gpuwatch.state import State
from gpuwatch.store import Store
from gpuwatch.teams import resolve_many

DIMENSIONS = (
    "team",
    "user",
    "queue",
    "namespace",
    "account",
    "job",
    "gpu_model",
    "mig_profile",
    "slice",
    "cluster",
    "pool",
)
FAR_PAST_US, FAR_FUTURE_US = -(2**62), 2**62
"""Ends of a price that holds for ever."""

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
    """Charges of a window and their totals; `cost` is None where currencies differ."""

    items: tuple[Charge, ...]
    window: Window
    gpu_seconds: Decimal
    cost: Decimal | None
    currency: str | None
    unpriced_gpu_seconds: Decimal


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
                    "usd_per_gpu_hour": None if rate is None else str(rate.usd_per_gpu_hour),
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
    team: str | None = None,
) -> Chargeback:
    """Who pays what in a window, by any of DIMENSIONS. Raises UsageError for an unknown dimension."""
    check_dimensions(by)
    price_all(store, state)
    amounts: dict[tuple[Any, ...], list[Fraction]] = {}
    errors: dict[tuple[Any, ...], str] = {}
    for row in store.rows(
        "cost/charge",
        start_us=window.start_us,
        end_us=window.end_us,
        cluster=cluster,
        team=team,
        **_flags(by),
    ):
        key = (tuple(row[name] for name in by), row["held"], row["currency"], row["lacks"])
        seconds = Fraction(int(row["units"]), row["share_den"] * SECOND_US)
        amount = amounts.setdefault(key, [Fraction(0), Fraction(0)])
        amount[0] += seconds
        if row["price"] is not None:
            amount[1] += seconds * SECOND_US / HOUR_US * Fraction(row["price"])
        else:
            place, pool, model, profile = row["lacks"].split("\x1f")
            errors[key] = missing_rate(place, pool or None, model, profile or None, row["first_us"])
    return _published(window, by, amounts, errors)


def _published(
    window: Window,
    by: Sequence[str],
    amounts: dict[tuple[Any, ...], list[Fraction]],
    errors: dict[tuple[Any, ...], str],
) -> Chargeback:
    keys = list(amounts)
    names = [repr(key) for key in keys]
    seconds = dict(zip(keys, largest_remainder([amounts[k][0] for k in keys], 6, names), strict=True))
    costs: dict[tuple[Any, ...], Decimal] = {}
    currencies = sorted({key[2] for key in keys if key[2] is not None})
    for currency in currencies:
        mine = [k for k in keys if k[2] == currency]
        rounded = largest_remainder([amounts[k][1] for k in mine], 2, [repr(k) for k in mine])
        costs.update(zip(mine, rounded, strict=True))
    items = [
        Charge(
            group=dict(zip(by, key[0], strict=True)),
            kind="allocated" if key[1] else "platform",
            gpu_seconds=seconds[key],
            cost=costs.get(key),
            cost_exact=None if key in errors else fraction_to_decimal(amounts[key][1]),
            currency=key[2],
            error=errors.get(key),
        )
        for key in keys
    ]
    items.sort(key=lambda c: (c.kind == "platform", -(c.cost or Decimal(0)), str(c.group)))
    return Chargeback(
        items=tuple(items),
        window=window,
        gpu_seconds=sum(seconds.values(), Decimal(0)),
        cost=sum(costs.values(), Decimal(0)) if len(currencies) <= 1 else None,
        currency=currencies[0] if len(currencies) == 1 else None,
        unpriced_gpu_seconds=sum((seconds[k] for k in errors), Decimal(0)),
    )


@dataclass(frozen=True)
class BucketRow:
    """GPU-seconds (share-weighted) of one bucket in one group."""

    group: dict[str, str | None]
    bucket: str
    gpu_seconds: Decimal


@dataclass(frozen=True)
class Ledger:
    """The books of a window; `capacity_gpu_seconds` is the sum of the rows."""

    items: tuple[BucketRow, ...]
    window: Window
    capacity_gpu_seconds: Decimal


def ledger(
    store: Store,
    state: State,
    window: Window,
    by: Sequence[str] = ("bucket",),
    cluster: str | None = None,
    team: str | None = None,
) -> Ledger:
    """GPU-seconds by bucket, and by any of DIMENSIONS beside it. Raises UsageError for an unknown dimension."""
    dimensions = [name for name in by if name != "bucket"]
    check_dimensions(dimensions)
    price_all(store, state)
    sums: dict[tuple[Any, ...], Fraction] = defaultdict(Fraction)
    for row in store.rows(
        "reports/ledger",
        start_us=window.start_us,
        end_us=window.end_us,
        cluster=cluster,
        team=team,
        **_flags(dimensions),
    ):
        group = tuple(row[name] for name in dimensions)
        for bucket in BUCKETS:
            if units := int(row[bucket]):
                sums[(group, bucket)] += Fraction(units, row["share_den"] * SECOND_US)
    keys = list(sums)
    seconds = largest_remainder([sums[k] for k in keys], 6, [repr(k) for k in keys])
    items = [
        BucketRow(dict(zip(dimensions, group, strict=True)), bucket, amount)
        for (group, bucket), amount in zip(keys, seconds, strict=True)
    ]
    items.sort(key=lambda r: (str(r.group), BUCKETS.index(r.bucket)))
    return Ledger(tuple(items), window, sum(seconds, Decimal(0)))


def check_dimensions(by: Sequence[str]) -> None:
    """Raises UsageError naming the first dimension that is not known."""
    for name in by:
        if name not in DIMENSIONS:
            raise UsageError(f"--by {name}: not a dimension; known: {', '.join(DIMENSIONS)}")


def _flags(by: Sequence[str]) -> dict[str, bool]:
    return {f"by_{name}": name in by for name in DIMENSIONS}
