"""Whether a policy weighs the usage of teams that a caller may not see."""

from __future__ import annotations

from collections.abc import Collection

from gpuwatch.policy.policy import EVEN, PROPORTIONAL, QUOTA_HOLDER, Policies, Policy

WEIGHS_OTHERS = (PROPORTIONAL, EVEN, QUOTA_HOLDER)
"""Payers whose part depends on what every team held, or left free."""


def weighs_others(policies: Policies, teams: Collection[str]) -> str | None:
    """The first field whose result depends on the usage of teams other than `teams`; None if there is none.

    Quotas count whoever has them, because what they reserve is free time of the whole pool. A fixed split does not
    count: its percentages are in the document.
    """
    found = (
        f"policies.{place}.{field}"
        for place, policy in enumerate(policies.items)
        for field in _weighing(policy, frozenset(teams))
    )
    return next(found, None)


def _weighing(policy: Policy, teams: frozenset[str]) -> list[str]:
    payers = [f"payers.{cause}" for cause, entry in policy.payers if entry.payer in WEIGHS_OTHERS]
    shared = [
        f"shared.{place}"
        for place, cost in enumerate(policy.shared)
        if cost.split in (PROPORTIONAL, EVEN) and not (cost.teams and teams.issuperset(cost.teams))
    ]
    return [*payers, *(["quotas"] if policy.quotas else []), *shared]
