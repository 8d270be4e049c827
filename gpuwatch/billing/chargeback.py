"""Chargeback and ledger: device time multiplied by prices, computed exactly and rounded once for publication."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from typing import Any

from gpuwatch.billing import policy_charges
from gpuwatch.billing.inferred_teams import Mark, fill_other_teams, inferred_rows
from gpuwatch.billing.kinds import fill_kinds
from gpuwatch.billing.ledgers import ledger, ledger_in_steps
from gpuwatch.billing.prices import price, price_all
from gpuwatch.billing.proposed import Proposed, fill_proposed
from gpuwatch.billing.records import Charge, Chargeback
from gpuwatch.core.clock import Window
from gpuwatch.core.money import CENT_PLACES, units_to_decimal
from gpuwatch.ledger.dimensions import CAUSE, DIMENSIONS, check_dimensions, values
from gpuwatch.ledger.totals import (
    SECOND_PLACES,
    Scale,
    Totals,
    page,
    question,
    scale_of,
    working_tables,
)
from gpuwatch.policy.policy import Policies
from gpuwatch.policy.repository import load_policies
from gpuwatch.rates.card import missing_rate
from gpuwatch.rates.fx import Fx
from gpuwatch.state import State
from gpuwatch.store import answer_cache
from gpuwatch.store.database import Store

__all__ = [
    "CHARGE_DIMENSIONS",
    "DIMENSIONS",
    "chargeback",
    "check_dimensions",
    "ledger",
    "ledger_in_steps",
    "price",
    "price_all",
]

CHARGE_DIMENSIONS = (*DIMENSIONS, CAUSE)
"""Dimensions of charges; `cause` is the reason for a charge without held time (idle, a shared cost), or for a reduction."""
KEPT_ROWS_MAX = 1000
"""Largest answer that is cached, in rows: one page of the API."""


def chargeback(
    store: Store,
    state: State,
    window: Window,
    by: Sequence[str] = ("team",),
    cluster: str | None = None,
    teams: Collection[str] | None = None,
    *,
    pool: str | None = None,
    limit: int | None = None,
    offset: int = 0,
    policy: Policies | None = None,
    closed: bool = True,
    other_default: bool = False,
    proposed: Proposed | None = None,
) -> Chargeback:
    """Who pays what in a window, by any of CHARGE_DIMENSIONS: most expensive rows first, unheld time last.

    `teams` filters rows; `__platform__` is included only if it is listed. Exact amounts stay, and cents are divided among the
    visible rows, so that they do not depend on the others. Totals are sums of the filtered rows, and `limit` rows from `offset` on are returned. `cluster` and `pool` select devices.
    Prices and teams are those of the last pricing (price_all): this reads and never writes. `policy` replaces the
    current policies. With `closed`, the exact window of a closed period is answered from its frozen rows, and
    corrections posted within the window are rows of kind correction; without, only the live ledger counts. With
    `other_default`, teams are those under the other value of the setting ownership_default; with `proposed`, prices and rules are those. Raises UsageError for an unknown dimension, or a window whose money does not fit.
    """
    check_dimensions(by, CHARGE_DIMENSIONS)
    live = policy is not None or proposed is not None or not closed
    by_run = other_default or (proposed is not None and proposed.rules is not None)
    # The charges of closed periods load SQLAlchemy, which takes longer than a small question.
    live = live or not _closed(state, window)
    if not live:
        from gpuwatch.billing.periods.billed import corrected, frozen_answer

        frozen = frozen_answer(state, window, by, cluster, teams, pool=pool, limit=limit, offset=offset)
        if frozen is not None:
            return frozen
    rules = load_policies(state) if policy is None else policy
    if CAUSE not in by and rules.plain(window.start_us, window.end_us):
        shown = None if teams is None else frozenset(teams)
        if proposed is None:
            answer = _plain(store, window, tuple(by), cluster, shown, pool, limit, offset, other_default)
        else:
            with working_tables(store):
                fill_proposed(store, state, proposed)
                scale = _fill_plain(store, window, by, cluster, shown, pool, by_run)
                answer = _answer(store, scale, window, by, cluster, pool, limit, offset, by_run)
    else:
        with working_tables(store):
            if other_default:
                fill_other_teams(store)
            if proposed is not None:
                fill_proposed(store, state, proposed)
            fx = Fx.read(state) if proposed is None or proposed.fx is None else proposed.fx
            scale, _ = policy_charges.fill_charges(store, rules, window, by, cluster, teams, pool, fx, by_run=by_run)
            answer = _answer(store, scale, window, by, cluster, pool, limit, offset, by_run)
    if live:
        return answer
    return corrected(state, answer, cluster, teams, pool=pool, limit=limit, offset=offset)


def _closed(state: State, window: Window) -> bool:
    """Whether closed periods may change the charges of a window: it is one of them, or there are corrections."""
    query = """
        select exists(
            select 1 from period_closing where reopened_us is null and start_us = :start_us and end_us = :end_us
        ) or exists(select 1 from period_correction) as found"""
    return bool(state.read(query, start_us=window.start_us, end_us=window.end_us)[0]["found"])


ANSWERED: answer_cache.Answers[Chargeback] = answer_cache.Answers()
"""Cached charges without policies, by query and by the stamp of the data they come from."""


def _plain(
    store: Store,
    window: Window,
    by: tuple[str, ...],
    cluster: str | None,
    teams: frozenset[str] | None,
    pool: str | None,
    limit: int | None,
    offset: int,
    other_default: bool,
) -> Chargeback:
    """Charges without policies: teams pay for what they hold."""
    asked = (window, by, cluster, teams, pool, limit, offset, other_default)
    known = answer_cache.stamp(store, window)
    if known is not None and (kept := ANSWERED.find((known, *asked))) is not None:
        return kept
    with working_tables(store):
        if other_default:
            fill_other_teams(store)
        known = answer_cache.stamp(store, window)  # of exactly the ledger state that is read here
        scale = _fill_plain(store, window, by, cluster, teams, pool, other_default)
        if not answer_cache.whole(store):
            known = None
        answer = _answer(store, scale, window, by, cluster, pool, limit, offset, other_default)
    if known is not None and len(answer.items) <= KEPT_ROWS_MAX:
        ANSWERED.keep((known, *asked), answer)
    return answer


def _fill_plain(
    store: Store,
    window: Window,
    by: Sequence[str],
    cluster: str | None,
    teams: frozenset[str] | None,
    pool: str | None,
    by_run: bool,
) -> Scale:
    """Fills `keyed` with charges without policies. Call within working_tables."""
    scale = scale_of(store, window)
    words = question(window, by, cluster, teams, scale, pool=pool, by_run=by_run)
    fill_kinds(store, words)
    store.run("billing/charge", **words)
    return scale


def _answer(
    store: Store,
    scale: Scale,
    window: Window,
    by: Sequence[str],
    cluster: str | None,
    pool: str | None,
    limit: int | None,
    offset: int,
    by_run: bool,
) -> Chargeback:
    """The published rows of `keyed`."""
    rows, following = page(store, scale, limit, offset, largest_first=True)
    totals = Totals.of(store.rows("billing/total"))
    inferred = inferred_rows(store, window, by, rows, by_run=by_run)
    return Chargeback(
        items=tuple(_charge(row, by, scale, inferred) for row in rows),
        window=window,
        gpu_seconds=totals.gpu_seconds,
        cost=totals.cost,
        currency=totals.currency,
        unpriced_gpu_seconds=totals.unpriced_gpu_seconds,
        by=tuple(by),
        next_offset=following,
        external_cost=totals.external_cost,
        cluster=cluster,
        pool=pool,
    )


def _charge(
    row: Mapping[str, Any], by: Sequence[str], scale: Scale, inferred: Callable[[Mapping[str, Any]], Mark]
) -> Charge:
    lacks = row["lacks"]
    missing = (
        missing_rate(row["cluster"], row["pool"], row["gpu_model"] or "", row["mig_profile"], row["first_us"])
        if lacks
        else None
    )
    return Charge(
        group=values(row, by),
        kind=row["kind"],
        gpu_seconds=units_to_decimal(int(row["micros"]), SECOND_PLACES),
        cost=None if lacks else units_to_decimal(int(row["cents"]), CENT_PLACES),
        cost_exact=None if lacks else scale.money_exact(int(row["amount"])),
        currency=row["currency"],
        error=missing,
        cause=row["cause"],
        gpu_seconds_exact=scale.gpu_seconds_exact(int(row["units"])),
        external=row["external"],
        mark=inferred(row),
    )
