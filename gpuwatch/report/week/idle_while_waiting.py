"""Idle GPUs that were held while requests of other teams waited that they would have fitted."""

from __future__ import annotations

from collections.abc import Collection
from decimal import Decimal
from fractions import Fraction

import pyarrow as pa

from gpuwatch.capacity.requests import models_of_requests, prepare_requests, request_owners
from gpuwatch.capacity.waits import NOT_FOR_GPUS
from gpuwatch.core.clock import HOUR_US, SECOND_US, Window
from gpuwatch.core.money import CENT_PLACES, EXACT_PLACES, fraction_to_decimal
from gpuwatch.ledger.totals import working_tables
from gpuwatch.policy.inferred import resolve_many
from gpuwatch.policy.repository import load_ownership
from gpuwatch.report.facts import Amount, Waited
from gpuwatch.state import State
from gpuwatch.store.database import Store

REQUESTS_MAX = 1_000_000

_REQUEST = pa.schema([("number", pa.int64()), ("team", pa.string())])


def idle_while_waiting(
    store: Store, state: State, window: Window, teams: Collection[str] | None
) -> dict[str, Waited] | None:
    """By the team that held the GPUs (only those of `teams`); None without data on waiting requests.

    A GPU (or slice) counts in an hour that it was held idle throughout, for the part of the hour in which at least one
    request of another team waited that asked for this cluster, queue, kind of GPU and slice, and whose nodes (or pods) would
    have found their devices among those that were held idle on each node throughout that hour. Idle time in other hours is left
    out: the amounts are a lower bound.
    """
    scope = {"start_us": window.start_us, "end_us": window.end_us}
    with working_tables(store):
        prepare_requests(store, window.start_us, window.end_us, NOT_FOR_GPUS, REQUESTS_MAX)
        if not _requests_known(store, window):
            return None
        owners = request_owners(store)
        decided = resolve_many(load_ownership(store, state), owners).select(["number", "team"])
        with store.view("report_fit", models_of_requests(store)), store.view("report_owner", decided.cast(_REQUEST)):
            rows = store.rows("report/waited", **scope, hour_us=HOUR_US, teams=None if teams is None else sorted(teams))
        store.sql("drop table report_request")
    found: dict[str, Waited] = {}
    for row in rows:
        known = found.get(row["team"], Waited(Amount(), 0))
        requests = max(known.requests, int(row["requests"]))
        found[row["team"]] = Waited(known.amount + _amount(row), requests)
    return found


def _requests_known(store: Store, window: Window) -> bool:
    """Whether submission times are known; without them, waiting requests are unknown."""
    found = store.sql(
        "select exists (select 1 from report_request)"
        " or exists (select 1 from pending where submit_us < $end_us and evidence_us > $start_us)"
        " or exists (select 1 from run where submit_us is not null and start_us < $end_us and end_us > $start_us)",
        start_us=window.start_us,
        end_us=window.end_us,
    )
    return bool(found[0][0])


def _amount(row: dict[str, object]) -> Amount:
    """The amount of a row: microseconds × share, at its price."""
    share = Fraction(int(str(row["share_num"])), int(str(row["share_den"])))
    seconds = Fraction(int(str(row["waited_us"])), SECOND_US) * share
    gpu_seconds = fraction_to_decimal(seconds, EXACT_PLACES)
    if row["usd_per_gpu_hour"] is None or row["currency"] is None:
        return Amount(gpu_seconds, (), gpu_seconds)
    cost = fraction_to_decimal(seconds / 3600 * Fraction(Decimal(str(row["usd_per_gpu_hour"]))), EXACT_PLACES)
    return Amount(gpu_seconds, ((str(row["currency"]), cost),))


def rounded(waited: Waited) -> Waited:
    """With money rounded to cents, for display."""
    amount = waited.amount
    costs = tuple((currency, fraction_to_decimal(cost, CENT_PLACES)) for currency, cost in amount.costs)
    seconds, lacking = (fraction_to_decimal(n, 6) for n in (amount.gpu_seconds, amount.unpriced_gpu_seconds))
    return Waited(Amount(seconds, costs, lacking), waited.requests)
