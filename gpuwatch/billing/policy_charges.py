"""Charges under a policy: cells of the books become lines, which add up to what the devices cost.

A cell is a UTC day of what one team held of one kind of devices, or nobody held (sql/billing/policy_charges/cell.sql). A policy says what of
its cell a team pays, and deals what is left to the platform (sql/billing/policy_charges/payer.sql, line.sql). Everything is counted in whole
numbers and divided by cumulative rounding, so nothing is lost; weights are of whole days and what is cut is reported as a
difference of parts that begin at midnight, so the parts of a window pay what the whole pays.
"""

from __future__ import annotations

import re
from calendar import monthrange
from collections.abc import Collection, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from decimal import Decimal
from fractions import Fraction

import pyarrow as pa

from gpuwatch.billing.bucket_time import fill_bucket_time
from gpuwatch.core.clock import DAY_US, HOUR_US, MINUTE_US, Window, from_us
from gpuwatch.core.errors import UsageError
from gpuwatch.ledger.totals import AMOUNT_MAX, CAUSE, Scale, question, scale_of
from gpuwatch.policy import policy as p
from gpuwatch.policy.parse import matches
from gpuwatch.rates.fx import Fx
from gpuwatch.store.database import Store

DAYS_MAX = 3660
"""Days of a window that is charged under a policy."""
WHOLE, BEFORE, UNTIL = 0, 1, 2
"""Parts of a window: its whole days; of the first day what lies before the window; of the last what lies within."""
FAILED_STATES = (
    "node_fail",
    "boot_fail",
    "preempted",
    "nodelost",
    "nodeshutdown",
    "deletionbytaintmanager",
    "terminationbykubelet",
)
"""Ends of a run that were not its own: the node failed, or it was preempted. Slurm's and Kubernetes' words, lower case."""

_DAY = pa.schema(
    [
        ("day_us", pa.int64()),
        ("policy", pa.int32()),
        ("asleep", pa.int32()),
        ("active", pa.int32()),
        ("minimum_us", pa.int64()),
        ("lost_work", pa.bool_()),
        ("checkpoint_us", pa.int64()),
    ]
)
_PAYER = pa.schema(
    [
        ("policy", pa.int32()),
        ("cause", pa.string()),
        ("payer", pa.string()),
        ("in_cluster", pa.bool_()),
        ("in_pool", pa.bool_()),
        ("in_model", pa.bool_()),
    ]
)
_QUOTA = pa.schema(
    [
        ("policy", pa.int32()),
        ("quota", pa.int32()),
        ("team", pa.string()),
        ("quota_us", pa.int64()),
        ("cluster", pa.string()),
        ("pool", pa.string()),
        ("gpu_model", pa.string()),
    ]
)
_DISCOUNT = pa.schema(
    [
        ("policy", pa.int32()),
        ("place", pa.int32()),
        ("word", pa.string()),
        ("key", pa.string()),
        ("pattern", pa.string()),
        ("factor", pa.int32()),
    ]
)
_SHARED = pa.schema(
    [
        ("part", pa.int32()),
        ("day_us", pa.int64()),
        ("policy", pa.int32()),
        ("name", pa.string()),
        ("currency", pa.string()),
        ("amount", pa.string()),
        ("split", pa.string()),
        ("named", pa.bool_()),
    ]
)
_MEMBER = pa.schema([("policy", pa.int32()), ("name", pa.string()), ("team", pa.string()), ("weight", pa.int64())])

Days = Sequence[tuple[int, p.Policy]]


def book(
    store: Store,
    policies: p.Policies,
    window: Window,
    by: Sequence[str],
    cluster: str | None,
    teams: Collection[str] | None,
    pool: str | None,
    exchange: Fx | None = None,
) -> tuple[Scale, dict[str, object]]:
    """Fills the temporary table `booked` with the charges of a window under policies; returns its scale and question.

    Call within books.working_tables. Shares are made of the whole fleet: `cluster` and `pool` choose among the charges
    that come out. Amounts that a policy adds are converted by `exchange` at the day's beginning. Raises UsageError for a window of more than DAYS_MAX days of books, or whose money does not fit.
    """
    first_us, last_us = _floor(window.start_us), -(-window.end_us // DAY_US) * DAY_US
    low, high = store.sql("select min(start_us), max(end_us) from capacity")[0]
    first_us = max(first_us, _floor(low)) if low is not None else first_us
    last_us = min(last_us, -(-high // DAY_US) * DAY_US) if high is not None else last_us
    whole = Window(first_us, max(last_us, first_us + DAY_US))
    if (whole.end_us - whole.start_us) // DAY_US > DAYS_MAX:
        raise UsageError(f"window: more than {DAYS_MAX} days under a policy; ask for a shorter one")
    basis_places, factor_places = _places(policies.items)
    scale = scale_of(store, whole, basis_places + factor_places)
    days = policies.days(whole.start_us, whole.end_us)
    rules = list(dict.fromkeys(item for _, item in days))
    parts = {"basis_parts": 10**basis_places, "factor_parts": 10**factor_places}
    asked = question(window, by, cluster, teams, scale, pool=pool) | {f"by_{CAUSE}": CAUSE in by} | parts
    inner = _inner(by, rules)
    tables = _tables(store, days, rules, window, scale, exchange or Fx(), parts["basis_parts"])
    with _views(store, tables):
        store.run(
            "billing/policy_charges/cell_new",
            preemptible=any(d.word == "preemptible" for r in rules for d in r.discounts),
        )
        for part, edge_us in ((BEFORE, window.start_us), (UNTIL, window.end_us)):
            if _floor(edge_us) != edge_us and whole.start_us < edge_us < whole.end_us:
                _cells(store, Window(_floor(edge_us), edge_us), inner, scale, asked, part)
        # The whole days come last: their prices are those that single runs are charged by.
        _cells(store, whole, inner, scale, asked, WHOLE)
        store.run("billing/policy_charges/payer", scale=scale.shares)
        store.run("billing/policy_charges/line", **parts, from_us=_floor(window.start_us), to_us=_floor(window.end_us))
        if any(rule.shared for rule in rules):
            store.run("billing/policy_charges/external")
        if any(rule.minimum_us or rule.moves_lost_work for rule in rules):
            before_us = max(rule.checkpoint_minutes for rule in rules) * MINUTE_US
            store.run("billing/policy_charges/torn", **asked, failed=list(FAILED_STATES), before_us=before_us)
            if any(rule.minimum_us for rule in rules):
                store.run("billing/policy_charges/minimum", **asked)
            if any(rule.moves_lost_work for rule in rules):
                store.run("billing/policy_charges/lost", **asked, before_us=before_us)
            store.run("billing/policy_charges/run_line", **asked)
    store.run("billing/policy_charges/booked", **asked)
    return scale, asked


def _floor(at_us: int) -> int:
    return at_us // DAY_US * DAY_US


def _inner(by: Sequence[str], rules: Sequence[p.Policy]) -> list[str]:
    """What the books are asked for: words that shares are made by, and those of the answer."""
    words = {discount.word for rule in rules for discount in rule.discounts}
    # A run pays less by more than what days are summed by, but for its queue.
    apart = ["queue"] if words == {"queue"} else ["job"] if words else []
    return list(dict.fromkeys([*by, "team", *p.SCOPE, *apart]))


def _cells(store: Store, span: Window, inner: Sequence[str], scale: Scale, asked: dict[str, object], part: int) -> None:
    """Adds the books of a span, day by day, to `cell`."""
    inside = question(span, [name for name in inner if name != CAUSE], None, None, scale, step_us=DAY_US)
    store.run("billing/kind", **inside)
    fill_bucket_time(store, inside)
    store.run("billing/policy_charges/cell", **inside | asked, by_word=asked["by_run"], part=part)


def _places(rules: Sequence[p.Policy]) -> tuple[int, int]:
    """Decimals of the weights of a basis, and of the factors of discounts: a price is divided by both."""
    weights = [weight for rule in rules for _, weight in rule.basis]
    factors = [discount.factor for rule in rules for discount in rule.discounts]
    first, second = (
        max(-int(part.normalize().as_tuple().exponent) for part in (Decimal(1), *found)) for found in (weights, factors)
    )
    return first, second


@contextmanager
def _views(store: Store, tables: dict[str, pa.Table]) -> Iterator[None]:
    with ExitStack() as stack:
        for name, rows in tables.items():
            stack.enter_context(store.view(name, rows))
        yield


def _tables(
    store: Store,
    days: Days,
    rules: Sequence[p.Policy],
    window: Window,
    scale: Scale,
    exchange: Fx,
    basis_parts: int,
) -> dict[str, pa.Table]:
    """What SQL reads of the policies: one row a day, payer, quota and place, discount, day of a shared cost, its team."""
    numbers = {rule: n for n, rule in enumerate(rules)}
    places = store.sql("select distinct cluster, pool, model from class_price") if any(r.quotas for r in rules) else []
    shared_costs = [(rule, cost) for rule in rules for cost in rule.shared]
    amounts = [
        (part, day_us, rule, cost, currency, amount)
        for day_us, rule in days
        for cost in rule.shared
        for part, currency, amount in _amounts(cost, day_us, window, scale, exchange)
    ]
    if sum(amount for *_, amount in amounts) > AMOUNT_MAX:
        raise UsageError("window: shared costs are too large to add up exactly; ask for a shorter one, or lower them")
    rows: dict[str, tuple[pa.Schema, list[tuple[object, ...]]]] = {
        "policy_day": (_DAY, [(day_us, numbers[rule], *_day(rule, basis_parts)) for day_us, rule in days]),
        "policy_payer": (
            _PAYER,
            [
                (numbers[rule], cause, entry.payer, *(name in entry.scope for name in p.SCOPE))
                for rule in rules
                for cause, entry in rule.payers
                if entry.payer in (p.PROPORTIONAL, p.EVEN, p.QUOTA_HOLDER)
            ],
        ),
        "policy_quota": (
            _QUOTA,
            [
                (numbers[rule], n, quota.team, int(quota.gpus * DAY_US), *place)
                for rule in rules
                for n, quota in enumerate(rule.quotas)
                for place in places
                if matches(quota.cluster, quota.pool, quota.gpu_model, place)
            ],
        ),
        "policy_discount": (
            _DISCOUNT,
            [
                (
                    numbers[rule],
                    n,
                    d.word,
                    d.key,
                    ".*".join(map(re.escape, d.match.split("*"))),
                    int(d.factor * p.PARTS),
                )
                for rule in rules
                for n, d in enumerate(rule.discounts)
            ],
        ),
        "policy_shared": (
            _SHARED,
            [
                (part, day_us, numbers[rule], cost.name, currency, str(amount), cost.split, bool(cost.teams))
                for part, day_us, rule, cost, currency, amount in amounts
            ],
        ),
        "policy_member": (
            _MEMBER,
            [
                (numbers[rule], cost.name, team, int(part * p.PARTS))
                for rule, cost in shared_costs
                for team, part in (*((team, Decimal(1)) for team in cost.teams), *cost.percentages)
            ],
        ),
    }
    return {
        name: pa.Table.from_pylist([dict(zip(schema.names, row, strict=True)) for row in found], schema=schema)
        for name, (schema, found) in rows.items()
    }


def _day(rule: p.Policy, basis_parts: int) -> tuple[object, ...]:
    """What a day's held time costs its team, in parts of `basis_parts`: asleep; at work but not at a roof. And its other
    rules.
    """
    asleep = rule.parts("allocated")
    return (
        asleep * basis_parts // p.PARTS,
        (asleep + rule.parts("used")) * basis_parts // p.PARTS,
        rule.minimum_us,
        rule.moves_lost_work,
        rule.checkpoint_minutes * MINUTE_US,
    )


def _amounts(
    cost: p.SharedCost, day_us: int, window: Window, scale: Scale, exchange: Fx
) -> Iterator[tuple[int, str, int]]:
    """(part, currency, amount) of a shared cost on one day: whole, and up to an edge of the window that cuts the day."""
    changed = exchange.convert(cost.amount, cost.currency, day_us)
    amount, currency = (cost.amount, cost.currency) if changed is None else (changed.amount, changed.currency)
    whole = _day_amount(Fraction(amount), cost.per, day_us, scale)
    if _floor(window.start_us) <= day_us < _floor(window.end_us):
        yield WHOLE, currency, whole
    for part, edge_us in ((BEFORE, window.start_us), (UNTIL, window.end_us)):
        if _floor(edge_us) == day_us != edge_us:
            yield part, currency, whole * (edge_us - day_us) // DAY_US


def _day_amount(amount: Fraction, per: str, day_us: int, scale: Scale) -> int:
    """A day of an amount in units of the scale, rounded down; the days of a month add up to its amount."""
    if per != "month":
        hours = DAY_US // HOUR_US if per == "hour" else 1
        return int(amount * hours * scale.hour)
    day = from_us(day_us)
    length, month = monthrange(day.year, day.month)[1], int(amount * scale.hour)
    return month * day.day // length - month * (day.day - 1) // length
