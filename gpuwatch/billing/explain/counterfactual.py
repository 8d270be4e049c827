"""A charge under other policies: what its payer would pay."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import replace
from decimal import Decimal
from typing import Any

from gpuwatch.billing.charge_id import Asked
from gpuwatch.billing.explain.closed import frozen
from gpuwatch.billing.explain.segments import NoSuchCharge, named, published, shown_window
from gpuwatch.billing.periods.billed import CORRECTION
from gpuwatch.core.errors import UsageError
from gpuwatch.core.money import CENT_PLACES, units_to_decimal
from gpuwatch.ledger.totals import SECOND_PLACES, working_tables
from gpuwatch.policy.ownership import PLATFORM
from gpuwatch.policy.parse import parse
from gpuwatch.policy.policy import Policies
from gpuwatch.policy.repository import load_policies
from gpuwatch.rates.presets import POLICIES
from gpuwatch.state import State
from gpuwatch.store.database import Store

SINCE_EVER = "1970-01-01"
POLICIES_SHOWN = 100
"""Policies of the window that an answer names."""

Parts = dict[tuple[str, str | None], Mapping[str, Any]]


def policies_of(state: State, name: str) -> Policies:
    """A preset, or a policy in force, by its name: as if it held at all times. Raises UsageError."""
    if name in POLICIES:
        return Policies(parse({"policies": [{"name": name, "preset": name, "valid_from": SINCE_EVER}]}))
    known = load_policies(state).items
    found = next((one for one in known if one.name == name), None)
    if found is None:
        names = ", ".join((*POLICIES, *(one.name for one in known)))
        raise UsageError(f"policy {name[:60]!r}: neither a preset nor the name of a current policy; known: {names}")
    return Policies((replace(found, valid_from_us=0, valid_to_us=None),))


def under(
    store: Store, state: State, asked: Asked, policies: Policies, teams: Collection[str] | None = None
) -> dict[str, Any] | None:
    """What the words of a charge pay now and would pay under `policies`, as JSON has it; None of a correction or of time
    without a price: nobody knows.

    A policy may charge a team for what others left beside what it held, so all that its words pay is compared: `parts` by
    kind and cause. Unheld time is the platform's and compared separately. Closed periods are recomputed on both
    sides, because this compares rules, not bills. `teams` is the row filter. Raises NoSuchCharge, and UsageError as
    chargeback does.
    """
    shown_window(asked)
    if asked.kind == CORRECTION or asked.currency is None:
        return None
    (there, now), (_, then) = (_parts(store, state, asked, teams, rules) for rules in (load_policies(state), policies))
    if not there and ((closed := frozen(state, asked, teams)) is None or closed.charge is None):
        raise NoSuchCharge
    parts = [_part(key, now.get(key), then.get(key)) for key in sorted({*now, *then}, key=str)]
    before, after = (sum((_cost(one) for one in side.values()), Decimal(0)) for side in (now, then))
    window = asked.window
    names = dict.fromkeys(policies.at(day_us).name for day_us in _edges(policies, window.start_us, window.end_us))
    return {
        "policies": list(names)[:POLICIES_SHOWN],
        "now": f"{before:.{CENT_PLACES}f}",
        "cost": f"{after:.{CENT_PLACES}f}",
        "difference": f"{after - before:.{CENT_PLACES}f}",
        "currency": asked.currency,
        "parts": parts,
    }


def _parts(
    store: Store, state: State, asked: Asked, teams: Collection[str] | None, rules: Policies
) -> tuple[bool, Parts]:
    """Whether there is such a charge, and all that its words pay, by kind and cause."""
    with working_tables(store):
        _, words, _ = published(store, state, asked, teams, rules)
        words |= named(asked)
        store.run("billing/explain/named", **words)
        held = asked.kind != "platform" and dict(asked.group).get("team") != PLATFORM
        there = bool(store.rows("billing/explain/charge", **words)[0]["rows"])
        found = store.rows("billing/explain/cause", **words, held=held)
        return there, {(row["kind"], row["cause"]): row for row in found}


def _part(key: tuple[str, str | None], now: Mapping[str, Any] | None, then: Mapping[str, Any] | None) -> dict[str, Any]:
    before, after = _cost(now), _cost(then)
    micros = int(then["micros"]) if then is not None else 0
    return {
        "kind": key[0],
        "cause": key[1],
        "gpu_seconds": f"{units_to_decimal(micros, SECOND_PLACES):f}",
        "now": f"{before:.{CENT_PLACES}f}",
        "cost": f"{after:.{CENT_PLACES}f}",
        "difference": f"{after - before:.{CENT_PLACES}f}",
    }


def _cost(row: Mapping[str, Any] | None) -> Decimal:
    return Decimal(0) if row is None else units_to_decimal(int(row["cents"]), CENT_PLACES)


def _edges(policies: Policies, start_us: int, end_us: int) -> list[int]:
    """Instants at which the policy of a window may change, its start first."""
    edges = {at_us for one in policies.items for at_us in (one.valid_from_us, one.valid_to_us) if at_us is not None}
    return [start_us, *sorted(at_us for at_us in edges if start_us < at_us < end_us)]
