"""The scope of an evaluation: a cluster, a window, and the facts about both."""

from __future__ import annotations

from dataclasses import dataclass

from gpuwatch.capacity.heard import heard
from gpuwatch.rules.rule import EvaluationScope, Rule
from gpuwatch.settings import Settings
from gpuwatch.state import State
from gpuwatch.store.database import Store


@dataclass(frozen=True)
class ClusterScope:
    """Whole hours [since_us, until_us) of a cluster."""

    cluster: str
    since_us: int
    until_us: int
    known_until_us: int
    """The last sample of the cluster; without samples the last word of its schedulers. The end of the window where there is neither."""
    now_us: int
    settings: Settings
    state: State

    def for_rule(self, store: Store, rule: Rule) -> EvaluationScope:
        """The parameters of one rule's SQL. Needs job_chain."""
        since_us, until_us = self.since_us, self.until_us
        if rule.mode == "runs":  # Chains reach beyond the window: each is evaluated as a whole.
            first_us, last_us = store.sql("select min(chain_start_us), max(chain_end_us) from job_chain")[0]
            since_us = since_us if first_us is None else min(since_us, first_us)
            until_us = until_us if last_us is None else max(until_us, last_us)
        return EvaluationScope(
            self.cluster,
            since_us,
            until_us,
            since_us - rule.look_back_us,
            self.known_until_us,
            self.now_us,
            rule.parameters,
            self.settings,
            self.state,
        )


def known_until(store: Store, cluster: str, otherwise_us: int) -> int:
    """The last sample of a cluster; without samples the last word of its schedulers."""
    found = store.sql("select max(last_us) from device where cluster = $c", c=cluster)[0][0]
    return heard(store, otherwise_us, cluster, fresh_us=0).get(cluster, otherwise_us) if found is None else int(found)
