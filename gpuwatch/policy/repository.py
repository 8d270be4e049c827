"""Ownership rules and chargeback policies in the state database."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from typing import Any

from gpuwatch.policy.inferred import INFER, NONE, Ownership
from gpuwatch.policy.ownership import TeamRule
from gpuwatch.policy.parse import parse
from gpuwatch.policy.policy import KIND, SHARE_METHODS, Policies, Policy, methods_of
from gpuwatch.state import State
from gpuwatch.state.versioned_lists import VersionedLists
from gpuwatch.store.database import Store

TEAMS = "teams"
"""The versioned list that stores the ownership rules."""
OWNERSHIP_DEFAULT = "ownership_default"
"""The stored setting that decides about time without a rule: INFER or NONE."""


def replace_team_rules(
    state: State,
    rules: Sequence[TeamRule],
    actor: str,
    source: str,
    at_us: int,
    expected: Collection[str] | None = None,
) -> bool:
    """Makes `rules`, in this order, the new version of the ownership rules. True if that changes them."""
    rows = [{name: getattr(rule, name) for name in ("match_kind", "match", "team", "line")} for rule in rules]
    return VersionedLists(state).replace(TEAMS, rows, actor, source, at_us, expected)


def load_team_rules(state: State) -> tuple[TeamRule, ...]:
    """The current ownership rules in order; () where there are none."""
    return tuple(TeamRule(**row) for row in VersionedLists(state).rows(TEAMS))


def ownership_default(state: State) -> str:
    """What happens to held time that no rule decides: INFER or NONE."""
    return NONE if state.setting(OWNERSHIP_DEFAULT, INFER) == NONE else INFER


def set_ownership_default(state: State, value: str | None, actor: str, at_us: int) -> bool:
    """Stores the setting ownership_default, audited; None keeps what is stored. True if that changes it."""
    if value is None or value == ownership_default(state):
        return False
    return state.set_setting(OWNERSHIP_DEFAULT, value, actor, at_us)


def load_ownership(store: Store, state: State) -> Ownership:
    """The current rules, and what happens to time that they do not decide."""
    return Ownership(load_team_rules(state), ownership_default(state) == INFER, namespace_teams(store))


def namespace_teams(store: Store) -> dict[tuple[str, str], str]:
    """Teams that Kubernetes namespaces have in their label, by cluster and namespace."""
    return {(row["cluster"], row["namespace"]): row["team"] for row in store.rows("policy/namespace_team")}


def load_policies(state: State) -> Policies:
    """The current policies. They were validated when they were set."""
    lists = VersionedLists(state)
    version = lists.version(KIND)  # before the rows: who replaces this version must have seen at least its rows
    return Policies(stored_policies(lists.rows(KIND)), version)


def share_methods(state: State, default: str = SHARE_METHODS[0]) -> list[tuple[int, str]]:
    """(from_us, method) for weighing MIG slices, in order of time from the first policy on.

    Before that, and wherever no policy sets a method, it is `default`.
    """
    return methods_of(load_policies(state).items, default)


def stored_policies(rows: Sequence[Mapping[str, Any]]) -> tuple[Policy, ...]:
    """The policies of stored rows, which are not checked against the fleet again."""
    return parse({"policies": list(rows)})
