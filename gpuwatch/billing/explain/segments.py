"""The lines of a charge in the store: its segments from the ledger, and the amounts that a policy adds."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import pyarrow as pa

from gpuwatch.billing import policy_charges
from gpuwatch.billing.bucket_time import fill_bucket_time
from gpuwatch.billing.charge_id import Asked
from gpuwatch.billing.kinds import fill_kinds
from gpuwatch.billing.listings import window_dict
from gpuwatch.core.clock import DAY_US, HOUR_US, Window
from gpuwatch.core.errors import UsageError
from gpuwatch.ledger.dimensions import CAUSE, DIMENSIONS
from gpuwatch.ledger.totals import Scale, question, round_rows, scale_of, working_tables
from gpuwatch.policy.policy import PARTS, Policies, Policy
from gpuwatch.policy.repository import load_policies
from gpuwatch.rates.fx import Fx
from gpuwatch.state import State
from gpuwatch.store.database import Store

SUMS_MAX = 50
"""Sums by model, share and price that are returned: the most expensive."""

_SPAN = pa.schema(
    [
        ("policy", pa.int32()),
        ("start_us", pa.int64()),
        ("end_us", pa.int64()),
        ("asleep", pa.int32()),
        ("active", pa.int32()),
    ]
)


class NoSuchCharge(UsageError):
    """No row of the chargeback has this id, or none that the caller may see. The two cases look the same on purpose."""

    def __init__(self) -> None:
        super().__init__(
            "charge: no such row in the chargeback now; ask for the chargeback again and copy the row's id"
        )


def shown_window(asked: Asked) -> dict[str, str]:
    """The window of a charge as JSON. Raises NoSuchCharge for an id that no chargeback could have made."""
    if len(dict(asked.group)) < len(asked.group):
        raise NoSuchCharge
    try:
        return window_dict(asked.window)
    except (OverflowError, ValueError) as error:  # no calendar has these years
        raise NoSuchCharge from error


@dataclass(frozen=True)
class Span:
    """Whole UTC days under one policy; `number` identifies the policy in SQL."""

    number: int
    policy: Policy
    start_us: int
    end_us: int


@dataclass(frozen=True)
class LiveCharge:
    """A charge with its lines in temporary tables: the row itself, sums of its lines, and pages of them."""

    store: Store
    scale: Scale
    asked: Mapping[str, object]
    window: Window
    spans: tuple[Span, ...]
    version: int | None
    charge: Mapping[str, Any]
    totals: Mapping[str, Any]
    sums: tuple[Mapping[str, Any], ...]
    bucketed: bool
    """Whether the buckets of all lines were read."""

    @property
    def lines(self) -> int:
        """The number of lines."""
        return int(self.totals["lines"]) + int(self.totals["rest"])

    def page(self, offset: int, limit: int) -> list[dict[str, Any]]:
        """Rows of sql/billing/explain/page.sql. Call it once: it reads the ledger for the devices of this page only."""
        if self.asked["kind"] == "allocated" and not self.bucketed:
            self._read_buckets(offset + 1, offset + limit)
        return self.store.rows("billing/explain/page", offset=offset, limit=limit)

    def _read_buckets(self, first: int, last: int) -> None:
        low, high = self.store.sql(
            "select min(start_us), max(end_us) from charge_line where key between $first and $last",
            first=first,
            last=last,
        )[0]
        start_us, end_us = self.window.start_us, self.window.end_us
        if low is not None:
            # Whole hours need no division at their edges.
            start_us, end_us = max(low // HOUR_US * HOUR_US, start_us), min(-(-high // HOUR_US) * HOUR_US, end_us)
        near = dict(self.asked) | {"start_us": start_us, "end_us": end_us}
        self.store.run("billing/explain/near", **near, first=first, last=last)
        _buckets(self.store, near, first, last)


@contextmanager
def opened(store: Store, state: State, asked: Asked, teams: Collection[str] | None) -> Iterator[LiveCharge | None]:
    """A charge of the live ledger, within the block; None if there is no such row, or none that the caller may see."""
    rules = load_policies(state)
    with working_tables(store):
        scale, parameters, plain = published(store, state, asked, teams, rules)
        words = parameters | named(asked)
        store.run("billing/explain/named", **words)
        charge = store.rows("billing/explain/charge", **words)[0]
        yield _live_charge(store, rules, asked, scale, words, charge, plain) if charge["rows"] else None
        store.run("billing/explain/drop")


def published(
    store: Store, state: State, asked: Asked, teams: Collection[str] | None, rules: Policies
) -> tuple[Scale, dict[str, object], bool]:
    """Fills keyed and rounded (sql/ledger/totals/round.sql) with the charges that the explained one was rounded with, as the chargeback does;
    returns their scale and question, and whether no policy changes anything in the window.
    """
    by = [name for name, _ in asked.group]
    plain = CAUSE not in by and rules.plain(asked.window.start_us, asked.window.end_us)
    if plain:
        scale = scale_of(store, asked.window)
        parameters = question(asked.window, by, asked.cluster, teams, scale, pool=asked.pool)
        fill_kinds(store, parameters)
        store.run("billing/charge", **parameters)
    else:
        scale, parameters = policy_charges.fill_charges(
            store, rules, asked.window, by, asked.cluster, teams, asked.pool, Fx.read(state)
        )
    parameters = parameters | {f"by_{CAUSE}": CAUSE in by}
    round_rows(store, scale)
    return scale, parameters, plain


def named(asked: Asked) -> dict[str, object]:
    """The words of a charge as parameters."""
    group = dict(asked.group)
    words: dict[str, object] = {f"of_{name}": group.get(name) for name in DIMENSIONS}
    return words | {"kind": asked.kind, "cause": asked.cause, "currency": asked.currency}


def _live_charge(
    store: Store,
    rules: Policies,
    asked: Asked,
    scale: Scale,
    words: dict[str, object],
    charge: Mapping[str, Any],
    plain: bool,
) -> LiveCharge:
    spans = _spans(store, rules, asked.window, plain)
    # The buckets of all lines are needed only if the basis depends on them; else those of a page.
    bucketed = asked.kind == "allocated" and any(span.policy.parts("allocated") < PARTS for span in spans)
    store.run("billing/explain/unit", **words)
    with store.view("policy_span", _table(spans)):
        store.run("billing/explain/line", **words)
        store.run("billing/explain/unread")
        if plain:
            store.run("billing/explain/nothing")
        else:
            if bucketed:
                _buckets(store, words, 0, 2**62)
            store.run("billing/explain/paid", **words)
            store.run("billing/explain/rest", **words)
    totals = store.rows("billing/explain/total", **words)[0]
    sums = store.rows("billing/explain/sums", limit=SUMS_MAX)
    used = {row[0] for row in store.sql("select distinct policy from charge_line")} | {
        span.number
        for span in spans
        for (day_us,) in ([] if plain else store.sql("select distinct day_us from charge_rest"))
        if span.start_us <= day_us < span.end_us
    }
    return LiveCharge(
        store,
        scale,
        words,
        asked.window,
        tuple(span for span in spans if span.number in used),
        rules.version or None,
        dict(charge) | {"priced": asked.currency is not None},
        totals,
        tuple(sums),
        bucketed=bucketed,
    )


def _buckets(store: Store, words: Mapping[str, object], first: int, last: int) -> None:
    """Fills line_bucket for the lines of these keys."""
    hourly = dict(words) | {"step_us": HOUR_US, "by_run": True, "by_team": True, "teams": None}
    fill_bucket_time(store, hourly)
    store.run("billing/explain/bucket", **hourly, first=first, last=last)


def _spans(store: Store, rules: Policies, window: Window, plain: bool) -> list[Span]:
    """The days of a window by policy, with the numbers that SQL uses for them."""
    known: dict[int, int] = {} if plain else dict(store.sql("select distinct day_us, policy from cell where part = 0"))
    found: list[Span] = []
    low, high = store.sql("select min(start_us), max(end_us) from capacity")[0]
    if low is None:
        return found
    start_us, end_us = max(window.start_us, low), min(window.end_us, high)
    numbers: dict[Policy, int] = {}
    for day_us, policy in rules.days(start_us, end_us):
        if not plain and day_us not in known:
            continue
        number = numbers.setdefault(policy, len(numbers)) if plain else known[day_us]
        last = found[-1] if found else None
        if last is not None and (last.number, last.policy, last.end_us) == (number, policy, day_us):
            found[-1] = Span(number, policy, last.start_us, day_us + DAY_US)
        else:
            found.append(Span(number, policy, day_us, day_us + DAY_US))
    return [
        Span(one.number, one.policy, max(one.start_us, window.start_us), min(one.end_us, window.end_us))
        for one in found
    ]


def _table(spans: list[Span]) -> pa.Table:
    rows = [
        {
            "policy": one.number,
            "start_us": one.start_us,
            "end_us": one.end_us,
            "asleep": one.policy.parts("allocated"),
            "active": one.policy.parts("allocated") + one.policy.parts("used"),
        }
        for one in spans
    ]
    return pa.Table.from_pylist(rows, schema=_SPAN)
