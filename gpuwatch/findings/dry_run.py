"""Trying a rule: what it would find with other thresholds, without storing anything."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

from gpuwatch.findings.grants import RANK, note_short_conditions
from gpuwatch.findings.records import findings_of
from gpuwatch.findings.results import ParameterSet, collect
from gpuwatch.findings.scope import ClusterScope, known_until
from gpuwatch.rules.rule import Rule
from gpuwatch.settings import Settings
from gpuwatch.state import State
from gpuwatch.store.database import Store


@dataclass(frozen=True)
class DryRun:
    """What a rule would find in a window, and what that would cost."""

    findings: list[dict[str, Any]] = field(default_factory=list)
    """Rows like those of `finding`, the key among them."""
    amounts: list[dict[str, Any]] = field(default_factory=list)
    """key, bucket, model, usd_per_gpu_hour, currency, units, den: as in finding_amount."""


def dry_run(
    store: Store,
    state: State,
    cluster: str,
    settings: Settings,
    rule: Rule,
    sets: Sequence[ParameterSet],
    window: tuple[int, int],
    now_us: int,
) -> DryRun:
    """What a rule with these thresholds would have found in whole hours [since, until), while other rules keep their claims.

    Works on temporary tables of this connection only. Raises what the rule's SQL raises.
    """
    since_us, until_us = window
    scope = ClusterScope(cluster, since_us, until_us, known_until(store, cluster, until_us), now_us, settings, state)
    store.run("views/job_chain", cluster=cluster, since_us=since_us, until_us=until_us)
    rule_scope = scope.for_rule(store, rule)
    if not collect(store, rule, sets, rule_scope):
        return DryRun()
    store.run("findings/dry/subject")
    found = findings_of(store, rule, rule_scope, "new_result")
    store.run("findings/new_claim")
    store.run("findings/dry/claim_hour")
    note_short_conditions(store, cluster)
    with store.view("found", found):
        store.run("findings/dry/claim", cluster=cluster, detector=rule.id)
        store.run("findings/grant", rank=list(RANK))
        amounts = store.rows("findings/dry/amount", cluster=cluster, detector=rule.id)
    return DryRun(found.to_pylist(), amounts)
