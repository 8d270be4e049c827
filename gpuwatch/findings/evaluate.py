"""Evaluating rules: their results become findings, and the ledger grants them the time that they claim."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterable, Sequence
from dataclasses import replace
from functools import cached_property

from gpuwatch.core.clock import DAY_US, HOUR_US
from gpuwatch.core.errors import GpuwatchError
from gpuwatch.findings.custom_rules import bounded
from gpuwatch.findings.grants import RANK, regrant
from gpuwatch.findings.records import findings_of
from gpuwatch.findings.results import ParameterSet, collect
from gpuwatch.findings.scope import ClusterScope, known_until
from gpuwatch.rates.in_force import in_force as rates_in_force
from gpuwatch.rules.rule import EvaluationScope, Rule
from gpuwatch.settings import Settings
from gpuwatch.state import State
from gpuwatch.store.connection import was_interrupted
from gpuwatch.store.database import Store

READ_BY_OTHERS = ("checkpoint-stall",)
"""Rules whose results other rules read: they are evaluated first of all."""
FIRST_REACH_US = 31 * DAY_US
"""How much of a cluster's past a rule evaluates that is new there, or has other thresholds now."""

Sets = Callable[[Rule], Sequence[ParameterSet]]
Progress = Callable[[str, int, int], None]


def ordered(rules: Iterable[Rule]) -> list[Rule]:
    """Rules in the order in which they are evaluated: first those whose results other rules read, then by rank of their claims."""
    places = {name: place for place, name in enumerate(READ_BY_OTHERS + RANK)}
    return sorted(rules, key=lambda rule: (places.get(rule.id, len(places)), rule.id))


def evaluate(
    store: Store,
    state: State,
    cluster: str,
    settings: Settings,
    rules: Sequence[Rule],
    sets: Sets,
    window: tuple[int, int],
    now_us: int,
    progress: Progress | None = None,
) -> list[str]:
    """Evaluates rules over whole hours [since, until) of a cluster; returns those that failed, with the reason.

    Each rule is a transaction: one that fails leaves its findings as they were, and the others go on. A rule that lacks one of
    its inputs and has no stored results is not run, because it could not find anything.
    """
    since_us, until_us = window
    scope = ClusterScope(cluster, since_us, until_us, known_until(store, cluster, until_us), now_us, settings, state)
    one = _Evaluation(store, scope, sets)
    batches: dict[int, list[tuple[Rule, str]]] = defaultdict(list)
    for rule in ordered(rules):
        try:
            version = _version(sets(rule))
        except GpuwatchError as error:
            one.failed.append(f"{rule.id}: {error}")
            continue
        batches[one.since(rule, version)].append((rule, version))
    done, total = 0, sum(len(batch) for batch in batches.values())
    for since_us, batch in sorted(batches.items(), reverse=True):
        one.begin(since_us)
        for rule, version in batch:
            if progress is not None:
                progress(f"{cluster}: {rule.id}", done, total)
            done += 1
            one.evaluate(rule, version)
        one.end()
    return one.failed


class _Evaluation:
    """One evaluation of a cluster's rules: their stored state, and which of them have to run."""

    def __init__(self, store: Store, scope: ClusterScope, sets: Sets) -> None:
        self._store, self._scope, self._sets = store, scope, sets
        query = "select detector, rule_version, owed_from_us, failure from rule_state where cluster = $c"
        self._states = {row[0]: row[1:] for row in store.sql(query, c=scope.cluster)}
        stored = store.rows("findings/stored", cluster=scope.cluster)
        self._open_from_us = {row["detector"]: row["open_from_us"] for row in stored}
        self._inputs = _inputs(store, scope)
        self._evaluated: list[tuple[str, str]] = []
        self._changed = False
        self.failed: list[str] = []

    def since(self, rule: Rule, version: str) -> int:
        """From when a rule is evaluated: the start of the window or of its backlog, and earlier where its thresholds changed."""
        known, owed_us, _ = self._states.get(rule.id, (None, None, None))
        since_us, until_us = self._scope.since_us, self._scope.until_us
        if owed_us is not None:
            since_us = max(min(since_us, owed_us), until_us - FIRST_REACH_US)
        if version == known:
            return since_us
        found = self._first_hour_us if known is None else self._open_from_us.get(rule.id)
        first_us = until_us if found is None else max(int(found) // HOUR_US * HOUR_US, until_us - FIRST_REACH_US)
        return min(since_us, first_us)

    @cached_property
    def _first_hour_us(self) -> int | None:
        query = "select min(hour_us) from ledger_hour where cluster = $c"
        found: int | None = self._store.sql(query, c=self._scope.cluster)[0][0]
        return found

    def begin(self, since_us: int) -> None:
        """Prepares what all rules of a batch read: job chains and held devices since `since_us`."""
        self._scope = replace(self._scope, since_us=since_us)
        self._changed = False
        words = {"cluster": self._scope.cluster, "since_us": since_us, "until_us": self._scope.until_us}
        self._store.run("views/job_chain", **words)
        if self._store.run("findings/relinked", **words):
            self._store.run("findings/relink", **words)
        self._store.run("findings/claim_hour")
        self._store.run("findings/lost", cluster=self._scope.cluster)

    def evaluate(self, rule: Rule, version: str) -> None:
        """Runs one rule unless it has nothing to find; a failure is recorded, and its window becomes its backlog."""
        lacks_input = any(self._inputs.isdisjoint(need.split("|")) for need in rule.needs)
        try:
            if not lacks_input or rule.id in self._open_from_us:
                with bounded(self._store, rule), self._store.transaction():
                    self._run(rule, version)
            self._evaluated.append((rule.id, version))
        except Exception as error:  # one rule never stops the others
            if was_interrupted(error):  # the service stops; the next pass evaluates the rule
                raise
            reason = f"{type(error).__name__}: {str(error).splitlines()[0] if str(error) else ''}"
            self.failed.append(f"{rule.id}: {reason}")
            defer(self._store, self._scope.cluster, [rule], self._scope.since_us, reason)

    def _run(self, rule: Rule, version: str) -> None:
        scope = self._scope
        if rule.mode == "all":  # Late data of long ago must not hide the results of the days since.
            until_us = max(scope.until_us, (scope.known_until_us // HOUR_US + 1) * HOUR_US)
            scope = replace(scope, until_us=until_us)
        rule_scope = scope.for_rule(self._store, rule)
        sets = self._sets(rule)
        found = collect(self._store, rule, sets, rule_scope)
        known = rule.id in self._open_from_us
        if found or known:
            self._changed = True
            if not found:
                self._store.run("findings/no_verdict")
            _replace(self._store, rule, rule_scope, version)
        general = sets[0].parameters
        if rule.unjudged is not None and general is not None:
            named = replace(rule_scope, parameters=general).sql_parameters()
            if self._store.keep_file("new_unjudged", rule.unjudged, **named) or known:
                self._store.run("findings/replace_unjudged", detector=rule.id, **named)

    def end(self) -> None:
        """Divides the ledger between the claims of the batch, and records which rules were evaluated."""
        cluster = self._scope.cluster
        noted = [pair for pair in self._evaluated if self._states.get(pair[0]) != (pair[1], None, None)]
        if self._changed or noted:
            with self._store.transaction():
                if self._changed:
                    regrant(self._store, cluster)
                if noted:
                    names, versions = ([pair[place] for pair in noted] for place in (0, 1))
                    self._store.run("findings/evaluated", cluster=cluster, detectors=names, versions=versions)
        self._evaluated = []


def _inputs(store: Store, scope: ClusterScope) -> frozenset[str]:
    """The inputs that a cluster has, by the names of Rule.needs."""
    store.run("views/pod_state")
    found = {row["name"] for row in store.rows("findings/inputs", cluster=scope.cluster) if row["present"]}
    return frozenset(found | {f"{rate.pricing}_rates" for rate in rates_in_force(scope.state)})


def defer(store: Store, cluster: str, rules: Iterable[Rule], from_us: int, failure: str | None = None) -> None:
    """Adds the time since `from_us` to the backlog of rules: they are evaluated over it next time."""
    with store.transaction():
        names = [rule.id for rule in rules]
        store.run("findings/defer", cluster=cluster, detectors=names, from_us=from_us, failure=failure)


def behind(store: Store, cluster: str, rules: Iterable[Rule], sets: Sets) -> list[Rule]:
    """The rules with a backlog in a cluster that has a ledger, those that are new there, and those with other thresholds."""
    query = "select detector, owed_from_us, rule_version from rule_state where cluster = $c"
    states = {row[0]: row[1:] for row in store.sql(query, c=cluster)}

    def is_behind(rule: Rule) -> bool:
        owed_us, version = states.get(rule.id, (None, None))
        try:
            return owed_us is not None or version != _version(sets(rule))
        except GpuwatchError:  # evaluate() reports it
            return True

    found = [rule for rule in rules if is_behind(rule)]
    if found and not store.sql("select count(*) from ledger_hour where cluster = $c", c=cluster)[0][0]:
        return []
    return found


def failures(store: Store) -> list[dict[str, str]]:
    """Rules that failed when they were last evaluated: cluster, detector and reason."""
    rows = store.sql("select cluster, detector, failure from rule_state where failure is not null order by all")
    return [dict(zip(("cluster", "detector", "reason"), row, strict=True)) for row in rows]


def _replace(store: Store, rule: Rule, rule_scope: EvaluationScope, version: str) -> None:
    """Replaces the rule's earlier results and findings by the new ones."""
    words = {
        "cluster": rule_scope.cluster,
        "detector": rule.id,
        "mode": rule.mode,
        "since_us": rule_scope.since_us,
        "until_us": rule_scope.until_us,
        "rule_version": version,
    }
    store.run("findings/forget", **words)
    store.run("findings/new_claim")
    store.run("findings/keep", detector=rule.id)
    with store.view("found", findings_of(store, rule, rule_scope, "verdict")):
        if rule.least_us:
            store.run("views/finding_claim")
            store.run("findings/claim_hours_changed", cluster=rule_scope.cluster, detector=rule.id)
        store.run("findings/replace_findings", **words)


def _version(sets: Sequence[ParameterSet]) -> str:
    """The thresholds in force, of all sets, as text."""
    return " | ".join(one.version for one in sets)
