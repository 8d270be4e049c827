"""Policy documents: validation against the fleet, activation, and JSON answers."""

from __future__ import annotations

from collections.abc import Collection
from typing import Any

from gpuwatch.billing.listings import window_dict
from gpuwatch.billing.what_if import Difference
from gpuwatch.core.clock import Window, rfc3339
from gpuwatch.policy.known_names import team_names
from gpuwatch.policy.parse import read
from gpuwatch.policy.policy import KIND, Policies, Policy, as_dict
from gpuwatch.policy.repository import load_policies
from gpuwatch.policy.values import Known
from gpuwatch.rates.fx import Fx
from gpuwatch.rates.repository import load_rates
from gpuwatch.state import State
from gpuwatch.state.versioned_lists import VersionedLists
from gpuwatch.store.database import Store

HISTORY = 100
"""Versions in the history of an answer."""


def known(store: Store, state: State) -> Known:
    """Teams of rules and runs, places of devices, and currencies of prices and of the fx card."""
    places = store.sql("select distinct cluster, pool, model from class_price")
    exchange = Fx.read(state)
    currencies = {rate.currency for rate in load_rates(state)} | {one.base for one in exchange.rates}
    currencies |= {exchange.currency} if exchange.currency else set()
    currencies |= {row[0] for row in store.sql("select distinct currency from class_price where currency is not null")}
    named = tuple((c, p, m) for c, p, m in places) if places else None
    return Known(team_names(store, state), named, frozenset(currencies) or None)


def replace(
    store: Store,
    state: State,
    text: str | bytes,
    name: str,
    actor: str,
    at_us: int,
    expected: Collection[str] | None = None,
) -> dict[str, Any]:
    """Makes a document the current policies, all or nothing, and returns the result. Raises UnreadableInput, PolicyError."""
    items = read(text, name, known(store, state))
    rows = [as_dict(item) for item in items]
    changed = VersionedLists(state).replace(KIND, rows, actor, name, at_us, expected)
    return {"changed": changed, "version": VersionedLists(state).version(KIND), "rows": len(items)}


def proposed(
    store: Store, state: State, text: str | bytes, name: str, teams: Collection[str] | None = None
) -> Policies:
    """The policies of a document that is a proposal. A team-scoped caller may name any team and any place, because an
    error would reveal which exist. Raises UnreadableInput, PolicyError.
    """
    limits = known(store, state)
    return Policies(read(text, name, limits if teams is None else Known(currencies=limits.currencies)))


def answer(state: State, at_us: int) -> dict[str, Any]:
    """The current policies, the one in force at `at_us`, and the version history."""
    found = load_policies(state)
    return {
        "items": [as_dict(item) for item in found.items],
        "version": found.version or 0,
        "in_force": found.at(at_us).name,
        "history": [
            {"version": v.version, "at": rfc3339(v.at_us), "by": v.actor, "source": v.source, "digest": v.digest}
            for v in VersionedLists(state).history(KIND, HISTORY)
        ],
    }


def difference_answer(found: tuple[Difference, ...], window: Window, closed: Collection[str]) -> dict[str, Any]:
    """The answer of a what-if."""
    return {
        "items": [
            {
                "team": d.team,
                "now": f"{d.now:f}",
                "then": f"{d.then:f}",
                "difference": f"{d.difference:f}",
                "currency": d.currency,
            }
            for d in found
        ],
        "window": window_dict(window),
        "closed": list(closed),
    }


def summary(policy: Policy) -> dict[str, str]:
    """A policy as one row of a table."""
    fields = as_dict(policy)
    basis = ", ".join(f"{name} {weight}" for name, weight in policy.basis)
    payers = ", ".join(f"{cause}: {entry.payer}" for cause, entry in policy.payers)
    lists = ("quotas", "discounts", "shared")
    more = [f"{len(getattr(policy, name))} {name}" for name in lists if getattr(policy, name)]
    return {
        "name": policy.name,
        "valid_from": str(fields["valid_from"]),
        "valid_to": str(fields["valid_to"] or ""),
        "basis": basis,
        "payers": payers or "platform",
        "more": ", ".join(more),
    }
