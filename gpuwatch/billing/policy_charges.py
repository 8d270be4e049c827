"""Charges under a policy: the hours that teams hold become charge lines, which add up to the cost of the devices.

The temporary table `cell` has a row for each UTC day, team and kind of device, and for unallocated time
(sql/billing/policy_charges/cell.sql). A policy decides how much of its own time a team pays for, and who pays for the
rest (payer.sql, line.sql in the same folder). All amounts are whole numbers, divided by cumulative rounding, so nothing is
lost. Weights are those of whole UTC days, and a day that a window cuts is charged as the difference of two parts that
begin at midnight, so consecutive windows add up to their union.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from contextlib import ExitStack
from decimal import Decimal

from gpuwatch.billing.bucket_time import fill_bucket_time
from gpuwatch.billing.kinds import fill_kinds
from gpuwatch.billing.policy_tables import BEFORE, UNTIL, WHOLE, policy_tables
from gpuwatch.core.clock import DAY_US, MINUTE_US, Window, day_floor
from gpuwatch.core.errors import UsageError
from gpuwatch.ledger.dimensions import CAUSE
from gpuwatch.ledger.totals import Scale, question, scale_of
from gpuwatch.policy import policy as p
from gpuwatch.rates.fx import Fx
from gpuwatch.store.database import Store

DAYS_MAX = 3660
"""Days of a window that is charged under a policy."""
FAILED_STATES = (
    "node_fail", "boot_fail", "preempted", "nodelost", "nodeshutdown", "deletionbytaintmanager",
    "terminationbykubelet",
)  # fmt: skip
"""States of runs that ended because a node failed or they were preempted: Slurm's and Kubernetes' words, in lower case."""


def fill_charges(
    store: Store,
    policies: p.Policies,
    window: Window,
    by: Sequence[str],
    cluster: str | None,
    teams: Collection[str] | None,
    pool: str | None,
    exchange: Fx | None = None,
    *,
    by_run: bool = False,
) -> tuple[Scale, dict[str, object]]:
    """Fills the temporary table `charge_group` with the charges of a window under policies; returns its scale and question.

    Call within ledger.totals.working_tables. Shares are those of the whole fleet: `cluster` and `pool` only filter the
    charges. `by_run` as in ledger.totals.question. Amounts that a policy adds are converted by `exchange` at the day's beginning. Raises UsageError for a window
    with more than DAYS_MAX days of data, or whose money does not fit.
    """
    whole = _charged_days(store, window)
    basis_places, factor_places = _decimal_places(policies.items)
    scale = scale_of(store, whole, basis_places + factor_places)
    days = policies.days(whole.start_us, whole.end_us)
    rules = list(dict.fromkeys(rule for _, rule in days))
    parts = {"basis_parts": 10**basis_places, "factor_parts": 10**factor_places}
    asked = question(window, by, cluster, teams, scale, pool=pool) | {f"by_{CAUSE}": CAUSE in by} | parts
    with ExitStack() as stack:
        for name, rows in policy_tables(store, days, window, scale, exchange or Fx(), parts["basis_parts"]).items():
            stack.enter_context(store.view(name, rows))
        _fill_cells(store, whole, window, _inner_dimensions(by, rules), rules, scale, asked, by_run)
        store.run("billing/policy_charges/payer", scale=scale.shares)
        if any(rule.quotas for rule in rules):
            store.run("billing/policy_charges/quota_payer")
        store.run("billing/policy_charges/payer_sums")
        edges = {"from_us": day_floor(window.start_us), "to_us": day_floor(window.end_us)}
        store.run("billing/policy_charges/line", **parts, **edges)
        if any(rule.shared for rule in rules):
            store.run("billing/policy_charges/external")
        _charge_single_runs(store, rules, asked)
    store.run("billing/policy_charges/charge_group", **asked)
    return scale, asked


def _charged_days(store: Store, window: Window) -> Window:
    """The whole UTC days of a window that have data, at least one day."""
    first_us, last_us = day_floor(window.start_us), -day_floor(-window.end_us)
    low, high = store.sql("select min(start_us), max(end_us) from capacity")[0]
    first_us = max(first_us, day_floor(low)) if low is not None else first_us
    last_us = min(last_us, -day_floor(-high)) if high is not None else last_us
    whole = Window(first_us, max(last_us, first_us + DAY_US))
    if (whole.end_us - whole.start_us) // DAY_US > DAYS_MAX:
        raise UsageError(f"window: more than {DAYS_MAX} days under a policy; ask for a shorter one")
    return whole


def _inner_dimensions(by: Sequence[str], rules: Sequence[p.Policy]) -> list[str]:
    """Dimensions of a cell: those of the answer and those that shares and discounts depend on."""
    words = {discount.word for rule in rules for discount in rule.discounts}
    # Sums by day have the queue of a run, but none of the other things that discounts match.
    apart = ["queue"] if words == {"queue"} else ["job"] if words else []
    return list(dict.fromkeys([*by, "team", *p.SCOPE, *apart]))


def _fill_cells(
    store: Store,
    whole: Window,
    window: Window,
    inner: Sequence[str],
    rules: Sequence[p.Policy],
    scale: Scale,
    asked: dict[str, object],
    by_run: bool,
) -> None:
    """Fills `cell` with the ledger of the whole days, and of the parts of days before the edges of the window."""
    store.run("billing/policy_charges/cell_new")
    if any(rule.discounts for rule in rules):
        preemptible = any(discount.word == "preemptible" for rule in rules for discount in rule.discounts)
        store.run("billing/policy_charges/run_factor", preemptible=preemptible)
    spans = [
        (Window(day_floor(edge_us), edge_us), part)
        for part, edge_us in ((BEFORE, window.start_us), (UNTIL, window.end_us))
        if day_floor(edge_us) != edge_us and whole.start_us < edge_us < whole.end_us
    ]
    # The whole days come last: single runs are charged by their prices.
    for span, part in [*spans, (whole, WHOLE)]:
        names = [name for name in inner if name != CAUSE]
        inside = question(span, names, None, None, scale, step_us=DAY_US, by_run=by_run)
        fill_kinds(store, inside)
        fill_bucket_time(store, inside)
        store.run("billing/policy_charges/cell", **inside | asked, by_word=asked["by_run"], part=part)


def _charge_single_runs(store: Store, rules: Sequence[p.Policy], asked: dict[str, object]) -> None:
    """Minimum billing, and work that failures destroyed: both depend on the start and end of each run."""
    minimum, lost = any(rule.minimum_us for rule in rules), any(rule.moves_lost_work for rule in rules)
    if not (minimum or lost):
        return
    before_us = max(rule.checkpoint_minutes for rule in rules) * MINUTE_US
    store.run("billing/policy_charges/ended_run", **asked, failed=list(FAILED_STATES), before_us=before_us)
    if minimum:
        store.run("billing/policy_charges/minimum", **asked)
    if lost:
        store.run("billing/policy_charges/lost", **asked, before_us=before_us)
    store.run("billing/policy_charges/run_line", **asked)


def _decimal_places(rules: Sequence[p.Policy]) -> tuple[int, int]:
    """Decimals of the weights of a basis, and of the factors of discounts: a price is divided by both."""
    weights = [weight for rule in rules for _, weight in rule.basis]
    factors = [discount.factor for rule in rules for discount in rule.discounts]
    first, second = (
        max(-int(part.normalize().as_tuple().exponent) for part in (Decimal(1), *found)) for found in (weights, factors)
    )
    return first, second
