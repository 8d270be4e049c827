"""Policies as tables for SQL: their days, payers, quotas, discounts and shared costs."""

from __future__ import annotations

import re
from calendar import monthrange
from collections.abc import Iterator, Sequence
from decimal import Decimal
from fractions import Fraction

import pyarrow as pa

from gpuwatch.core.clock import DAY_US, HOUR_US, MINUTE_US, Window, day_floor, from_us
from gpuwatch.core.errors import UsageError
from gpuwatch.ledger.totals import AMOUNT_MAX, Scale
from gpuwatch.policy import policy as p
from gpuwatch.policy.policy import matches
from gpuwatch.rates.fx import Fx
from gpuwatch.store.database import Store

WHOLE, BEFORE, UNTIL = 0, 1, 2
"""Parts of a window: its whole days; the part of the first day before the window; the part of the last day within it."""

Days = Sequence[tuple[int, p.Policy]]
Rows = list[tuple[object, ...]]

I32, I64, TEXT, BOOL = pa.int32(), pa.int64(), pa.string(), pa.bool_()
_COLUMNS: dict[str, dict[str, pa.DataType]] = {
    "policy_day": {
        "day_us": I64, "policy": I32, "asleep": I32, "active": I32, "minimum_us": I64, "lost_work": BOOL,
        "checkpoint_us": I64,
    },
    "policy_payer": {
        "policy": I32, "cause": TEXT, "payer": TEXT, "in_cluster": BOOL, "in_pool": BOOL, "in_model": BOOL,
    },
    "policy_quota": {
        "policy": I32, "quota": I32, "team": TEXT, "quota_us": I64, "cluster": TEXT, "pool": TEXT, "gpu_model": TEXT,
    },
    "policy_discount": {
        "policy": I32, "place": I32, "word": TEXT, "key": TEXT, "pattern": TEXT, "factor": I32,
    },
    "policy_shared": {
        "part": I32, "day_us": I64, "policy": I32, "name": TEXT, "currency": TEXT, "amount": TEXT, "split": TEXT,
        "named": BOOL,
    },
    "policy_member": {"policy": I32, "name": TEXT, "team": TEXT, "weight": I64},
}  # fmt: skip


def policy_tables(
    store: Store, days: Days, window: Window, scale: Scale, exchange: Fx, basis_parts: int
) -> dict[str, pa.Table]:
    """The tables of the policies in force on these days, by name. Raises UsageError if shared costs are too large."""
    numbers = {rule: number for number, rule in enumerate(dict.fromkeys(rule for _, rule in days))}
    rows: dict[str, Rows] = {
        "policy_day": [(day_us, numbers[rule], *_day_rules(rule, basis_parts)) for day_us, rule in days],
        "policy_payer": [(n, *row) for rule, n in numbers.items() for row in _payers(rule)],
        "policy_quota": _quotas(store, numbers),
        "policy_discount": [(n, *row) for rule, n in numbers.items() for row in _discounts(rule)],
        "policy_shared": _shared_costs(days, numbers, window, scale, exchange),
        "policy_member": [(n, *row) for rule, n in numbers.items() for row in _members(rule)],
    }
    return {name: _table(_COLUMNS[name], found) for name, found in rows.items()}


def _table(columns: dict[str, pa.DataType], rows: Rows) -> pa.Table:
    return pa.Table.from_pylist([dict(zip(columns, row, strict=True)) for row in rows], schema=pa.schema(columns))


def _day_rules(rule: p.Policy, basis_parts: int) -> tuple[object, ...]:
    """The cost of held time in parts of `basis_parts`, asleep and active below a roofline, and the policy's other rules."""
    asleep = rule.parts("allocated")
    return (
        asleep * basis_parts // p.PARTS,
        (asleep + rule.parts("used")) * basis_parts // p.PARTS,
        rule.minimum_us,
        rule.moves_lost_work,
        rule.checkpoint_minutes * MINUTE_US,
    )


def _payers(rule: p.Policy) -> Rows:
    return [
        (cause, entry.payer, *(name in entry.scope for name in p.SCOPE))
        for cause, entry in rule.payers
        if entry.payer in (p.PROPORTIONAL, p.EVEN, p.QUOTA_HOLDER)
    ]


def _quotas(store: Store, numbers: dict[p.Policy, int]) -> Rows:
    """Each quota once for every (cluster, pool, model) that it covers."""
    quotas = [(n, place, quota) for rule, n in numbers.items() for place, quota in enumerate(rule.quotas)]
    places = store.sql("select distinct cluster, pool, model from class_price") if quotas else []
    return [
        (n, number, quota.team, int(quota.gpus * DAY_US), *place)
        for n, number, quota in quotas
        for place in places
        if matches(quota.cluster, quota.pool, quota.gpu_model, place)
    ]


def _discounts(rule: p.Policy) -> Rows:
    return [
        (n, d.word, d.key, ".*".join(map(re.escape, d.match.split("*"))), int(d.factor * p.PARTS))
        for n, d in enumerate(rule.discounts)
    ]


def _members(rule: p.Policy) -> Rows:
    """The weights of the teams that share a cost."""
    return [
        (cost.name, team, int(part * p.PARTS))
        for cost in rule.shared
        for team, part in (*((team, Decimal(1)) for team in cost.teams), *cost.percentages)
    ]


def _shared_costs(days: Days, numbers: dict[p.Policy, int], window: Window, scale: Scale, exchange: Fx) -> Rows:
    amounts = [
        (part, day_us, numbers[rule], cost, currency, amount)
        for day_us, rule in days
        for cost in rule.shared
        for part, currency, amount in _amounts(cost, day_us, window, scale, exchange)
    ]
    if sum(amount for *_, amount in amounts) > AMOUNT_MAX:
        raise UsageError("window: shared costs are too large to add up exactly; ask for a shorter one, or lower them")
    return [
        (part, day_us, n, cost.name, currency, str(amount), cost.split, bool(cost.teams))
        for part, day_us, n, cost, currency, amount in amounts
    ]


def _amounts(
    cost: p.SharedCost, day_us: int, window: Window, scale: Scale, exchange: Fx
) -> Iterator[tuple[int, str, int]]:
    """(part, currency, amount) of a shared cost on one day: the whole day, and the part up to a window edge within it."""
    changed = exchange.convert(cost.amount, cost.currency, day_us)
    amount, currency = (cost.amount, cost.currency) if changed is None else (changed.amount, changed.currency)
    whole = _day_amount(Fraction(amount), cost.per, day_us, scale)
    if day_floor(window.start_us) <= day_us < day_floor(window.end_us):
        yield WHOLE, currency, whole
    for part, edge_us in ((BEFORE, window.start_us), (UNTIL, window.end_us)):
        if day_floor(edge_us) == day_us != edge_us:
            yield part, currency, whole * (edge_us - day_us) // DAY_US


def _day_amount(amount: Fraction, per: str, day_us: int, scale: Scale) -> int:
    """A day of an amount in units of the scale, rounded down; the days of a month add up to its amount."""
    if per != "month":
        hours = DAY_US // HOUR_US if per == "hour" else 1
        return int(amount * hours * scale.hour)
    day = from_us(day_us)
    length, month = monthrange(day.year, day.month)[1], int(amount * scale.hour)
    return month * day.day // length - month * (day.day - 1) // length
