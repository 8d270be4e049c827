"""Closes billing periods, and finds later changes to closed ones."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import pyarrow as pa

from gpuwatch.billing import chargeback, records
from gpuwatch.billing.periods import repository as stored
from gpuwatch.billing.periods.corrections.repository import Corrections
from gpuwatch.billing.periods.frozen import (
    COARSE,
    EXTERNAL,
    NOTHING,
    WORDS,
    Amounts,
    Key,
    by_key,
    cents_by_currency,
    coarse,
    differences,
    digest_of,
    lines,
    summary,
    sums_of,
)
from gpuwatch.billing.periods.records import Frozen, InForce
from gpuwatch.billing.periods.repository import Closing, PeriodConflict, Periods, finished
from gpuwatch.core.clock import DAY_US, Window, rfc3339
from gpuwatch.core.errors import LedgerDoesNotClose, StoreBusy
from gpuwatch.ledger import hours as ledger_hours
from gpuwatch.ledger.dimensions import CAUSE
from gpuwatch.policy.inferred import INFER
from gpuwatch.policy.repository import ownership_default
from gpuwatch.state import State
from gpuwatch.store.database import Store

FINE = (*WORDS, CAUSE)
"""Dimensions that are frozen."""
HOURS = 24
NAMED_MAX = 8
"""Days, or missing rates, that a refusal names; it counts the rest."""
SEEN = "period_seen:"
"""Prefix of settings that store what a closed period was last compared with."""
_CLOSED = pa.schema([("name", pa.string()), ("start_us", pa.int64()), ("end_us", pa.int64())])


def close(
    store: Store,
    state: State,
    name: str,
    actor: str,
    now_us: int,
    *,
    force: bool = False,
    price: Callable[[], bool] | None = None,
) -> Closing:
    """Freezes a finished week or month as the ledger has it now; corrections of other periods are posted first.

    `price` reprices with the newest cards, and returns False if that has to wait; None reprices on this connection. Raises
    UsageError for another name; PeriodConflict (with the fix) if the period is not over, not computed yet, closed already,
    or its ledger does not add up, and, unless `force`, for days without a complete ledger and time without a price;
    StoreBusy if repricing has to wait.
    """
    window = finished(name, now_us)
    periods = Periods(state)
    if any(one.name == name for one in periods.in_force()):
        raise PeriodConflict(f"period {name} is closed already; what changes later is a correction")
    versions = periods.versions()
    if price is None:
        chargeback.price_all(store, state)
    elif not price():
        raise StoreBusy(f"period {name}: an analysis is writing the ledger; close it when that is done")
    find_corrections(store, state, now_us)
    # One transaction: the checks and the frozen rows see the same ledger.
    with store.transaction():
        missing = _check(store, name, window, force)
        fine, teams = (_live(store, state, window, by) for by in (FINE, ("team",)))
        unpriced = [charge.error for charge in fine.items if charge.error is not None]
        if unpriced and not force:
            named = "; ".join(sorted(set(unpriced))[:NAMED_MAX])
            raise PeriodConflict(
                f"period {name}: {fine.unpriced_gpu_seconds:f} GPU-seconds have no price: {named}",
                "add the rates first, or close it with force: they become corrections when a price is known",
            )
    rows = [_row(charge) for charge in fine.items]
    published = [_published(charge, ("team",)) for charge in teams.items]
    context = {
        "forced": force,
        "days_without_books": len(missing),
        "missing_days": missing,
        "unpriced_gpu_seconds": f"{fine.unpriced_gpu_seconds:f}",
        "infer": ownership_default(state) == INFER,
        "inferred_teams": sorted({charge.group["team"] or "" for charge in teams.items if charge.inferred}),
    }
    return periods.close(name, Frozen(rows, published, summary(rows, published), versions, context), actor, now_us)


def find_corrections(store: Store, state: State, now_us: int) -> int:
    """Posts the differences between closed periods and the current ledger that were not posted yet; returns how many lines.

    A period whose ledger, prices and cards are unchanged costs only a comparison of fingerprints. A period with hours that
    still have to be computed waits. Running it again posts nothing.
    """
    closed = Periods(state).in_force()
    if not closed:
        return 0
    versions = Periods(state).versions()
    posted = 0
    for one, found in zip(closed, _prints(store, closed), strict=True):
        if found["dirty_hours"]:
            continue
        print_ = digest_of(json.dumps([found["print"], one.number, versions]))
        seen = json.loads(state.setting(SEEN + one.name) or "{}")
        if seen.get("print") == print_ and not found["unrolled_days"]:
            continue
        was = seen["versions"] if seen.get("number") == one.number else one.versions
        count = _correct(store, state, one, _why(was, versions), now_us)
        if count is None:
            continue
        posted += count
        state.note(SEEN + one.name, json.dumps({"print": print_, "number": one.number, "versions": versions}))
    return posted


def _check(store: Store, name: str, window: Window, force: bool) -> list[str]:
    """Days without a complete ledger; raises PeriodConflict if the ledger of the window cannot be frozen."""
    span = {"start_us": window.start_us, "end_us": window.end_us}
    if owed := store.rows("billing/periods/owed", **span)[0]["hours"]:
        raise PeriodConflict(
            f"period {name}: {owed} of its hours are not in the ledger yet",
            "close it after the next analysis (gpuwatch analyze)",
        )
    for (cluster,) in store.sql("select distinct cluster from device order by 1"):
        try:
            ledger_hours.check(store, cluster, window.start_us, window.end_us)
        except LedgerDoesNotClose as error:
            raise PeriodConflict(f"period {name}: {error}") from error
    whole = {row["day"] for row in store.rows("billing/periods/booked_day", **span) if row["hours"] == HOURS}
    days = range(window.start_us // DAY_US, -(-window.end_us // DAY_US))
    missing = [rfc3339(day * DAY_US)[:10] for day in days if day not in whole]
    if missing and not force:
        shown = ", ".join(missing[:NAMED_MAX]) + (" and more" if len(missing) > NAMED_MAX else "")
        raise PeriodConflict(
            f"period {name}: the ledger does not cover {len(missing)} of its days: {shown}",
            "import what is missing first, or close it with force",
        )
    return missing


def _prints(store: Store, closed: Sequence[InForce]) -> list[dict[str, Any]]:
    """Fingerprints of the data behind the charges of each period, in their order."""
    rows = [{"name": one.name, "start_us": one.window.start_us, "end_us": one.window.end_us} for one in closed]
    with store.view("closed_period", pa.Table.from_pylist(rows, schema=_CLOSED)):
        found = {row["name"]: row for row in store.rows("billing/periods/fingerprint")}
    return [found[one.name] for one in closed]


def _correct(store: Store, state: State, one: InForce, why: str, now_us: int) -> int | None:
    """Posts the lines of one period; None if it was reopened, or if other lines were posted meanwhile."""
    posted = Corrections(state).of(one.name)
    content = Periods(state).rows(one)
    fine = one.level == stored.FINE
    by = FINE if fine else COARSE
    with store.transaction():
        live = _live(store, state, one.window, by, one.infer)
    charges = live.items
    before = _plus(by_key(content["rows"] if fine else coarse(content["rows"])), sums_of(posted))
    now = [_row(charge) for charge in charges] if fine else coarse([_published(charge, by) for charge in charges])
    deltas = differences(before, by_key(now))
    published = content["published" if fine else "rows"]
    published_cents = cents_by_currency([(row["currency"], row["cost"]) for row in published])
    for currency, cents in cents_by_currency([(line.currency, line.cost) for line in posted]).items():
        published_cents[currency] = published_cents.get(currency, 0) + cents
    today = cents_by_currency([(charge.currency, charge.cost) for charge in charges])
    gap = {
        currency: today.get(currency, 0) - published_cents.get(currency, 0)
        for currency in today.keys() | published_cents.keys()
    }
    found = lines(deltas, gap)
    seen = max((line.id for line in posted), default=0)
    count = Corrections(state).post(one.name, one.number, seen, found, why, now_us)
    return None if found and not count else count


def _plus(one: Mapping[Key, Amounts], other: Mapping[Key, Amounts]) -> dict[Key, Amounts]:
    found = dict(one)
    for key, amounts in other.items():
        found[key] = found.get(key, NOTHING).plus(amounts)
    return found


def _why(was: Mapping[str, int], now: Mapping[str, int]) -> str:
    """The reason of a correction: the changed cards, or late data."""
    changed = [f"{kind} version {now.get(kind, 0)}" for kind in sorted({*was, *now}) if was.get(kind) != now.get(kind)]
    return ", ".join(changed) or "late data"


def _live(
    store: Store, state: State, window: Window, by: Sequence[str], infer: bool | None = None
) -> records.Chargeback:
    """The charges of the live ledger, whether or not the period is closed. `infer`: whether teams are inferred, as the period
    was closed; None: as it is set now. A changed setting is no correction of what was closed before.
    """
    other = infer is not None and infer != (ownership_default(state) == INFER)
    return chargeback.chargeback(store, state, window, by, closed=False, other_default=other)


def _row(charge: records.Charge) -> dict[str, Any]:
    """A charge by FINE as it is frozen: exact."""
    assert charge.gpu_seconds_exact is not None, "charges of the live ledger have it"
    row: dict[str, Any] = {
        **{name: charge.group[name] for name in WORDS},
        "kind": charge.kind,
        "cause": charge.cause,
        "origin": _origin(charge),
        "currency": charge.currency,
        "gpu_seconds": f"{charge.gpu_seconds_exact:f}",
        "cost_exact": None if charge.cost_exact is None else f"{charge.cost_exact:f}",
    }
    return row if charge.error is None else row | {"error": charge.error}


def _published(charge: records.Charge, by: Sequence[str]) -> dict[str, Any]:
    """A charge as published, to the cent."""
    origin = _origin(charge)
    return {
        **{name: charge.group[name] for name in by},
        "kind": charge.kind,
        "cause": charge.cause if origin else None,
        "origin": origin,
        "currency": charge.currency,
        "gpu_seconds": f"{charge.gpu_seconds:f}",
        "cost": None if charge.cost is None else f"{charge.cost:f}",
    }


def _origin(charge: records.Charge) -> str | None:
    return EXTERNAL if getattr(charge, "external", False) else None
