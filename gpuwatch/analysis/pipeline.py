"""The analysis: from samples and scheduler records to the ledger and findings."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

from gpuwatch.analysis.changes import Inputs, note_inputs, read_inputs
from gpuwatch.billing import chargeback
from gpuwatch.billing.periods.close import find_corrections
from gpuwatch.core.clock import HOUR_US, MINUTE_US, SECOND_US
from gpuwatch.core.errors import GpuwatchError, UsageError
from gpuwatch.findings import custom_rules, evaluate
from gpuwatch.findings.effective_thresholds import ParameterSet, sets_of
from gpuwatch.findings.threshold_overrides import layers
from gpuwatch.imports.files import INTERVAL_SETTING, seal_all
from gpuwatch.ledger import hours as ledger_hours
from gpuwatch.ledger import stranding
from gpuwatch.ledger.attribution import attribute
from gpuwatch.ledger.hours import unclosed
from gpuwatch.ledger.parts import HERE, Compute
from gpuwatch.policy.repository import share_methods
from gpuwatch.rules.rule import Rule, rules
from gpuwatch.settings import Settings
from gpuwatch.state import State
from gpuwatch.store.clock_damage import lost_hours, reopen
from gpuwatch.store.connection import was_interrupted
from gpuwatch.store.database import Store
from gpuwatch.store.retention import compact, drop_late, retain, skip_retired
from gpuwatch.topology import derive as topology_derive

CHAIN_REACH_US = HOUR_US
"""Runs of a job that follow each other within this share a finding, so rules look that far beyond the changed hours."""

Progress = Callable[[str, int, int], None]


@dataclass
class AnalyzeReport:
    """What an analysis did."""

    clusters: list[str] = field(default_factory=list)
    hours: int = 0
    findings: int = 0
    """Stored findings of these clusters, open or resolved."""
    failed_rules: list[str] = field(default_factory=list)
    left_out: int = 0
    """Late samples of days whose raw samples are gone."""
    corrections: int = 0
    """Correction lines posted to closed periods."""
    more_to_retain: bool = False
    """Whether the next retention may delete more: it deletes one day at a time."""


def analyze(
    store: Store,
    state: State,
    settings: Settings,
    *,
    now_us: int,
    since_us: int | None = None,
    until_us: int | None = None,
    detectors: Sequence[str] = (),
    retention: bool = False,
    progress: Progress | None = None,
    samples_until_us: int | None = None,
    corrects: bool = True,
    compute: Compute = HERE,
) -> AnalyzeReport:
    """Brings the ledger and the findings up to date; running it again changes nothing.

    With `retention`, repeated records and those past their retention are deleted at the end. Without a window: everything
    that is new or changed. With one: its hours are recomputed too. Samples after `samples_until_us` wait for a later run. Without `corrects`,
    closed periods are compared elsewhere: where the whole fleet is. `compute` is where samples are read. Raises LedgerDoesNotClose, naming the device-hour, before
    any finding is written; UsageError for an unknown detector.
    """
    with store.workspace() as work:
        known = {**rules(), **custom_rules.load(settings.detectors_dir, work)}
        for name in detectors:
            if name not in known:
                raise UsageError(f"--detector {name}: unknown; known: {', '.join(known)}")
        one = _Analysis(work, state, settings, now_us, (since_us, until_us), known, detectors or tuple(known), progress)
        one.samples_until_us, one.corrects, one.compute = samples_until_us, corrects, compute
        return one.run(retention)


@dataclass
class _Analysis:
    """One run of analyze()."""

    store: Store
    state: State
    settings: Settings
    now_us: int
    window: tuple[int | None, int | None]
    known: dict[str, Rule]
    detectors: Sequence[str]
    progress: Progress | None
    report: AnalyzeReport = field(default_factory=AnalyzeReport)
    samples_until_us: int | None = None
    corrects: bool = True
    compute: Compute = HERE

    def run(self, retention: bool) -> AnalyzeReport:
        """Every cluster, then what concerns all of them."""
        store, report = self.store, self.report
        report.failed_rules += [str(refusal) for refusal in custom_rules.refused()]
        report.left_out = drop_late(store)
        seal_all(store, self.samples_until_us)
        for cluster in clusters_of(store):
            report.clusters.append(cluster)
            _ClusterAnalysis(self, cluster).run()
        if not custom_rules.refused() and store.rows("analysis/unknown_rules", known=list(self.known)):
            # While a rule file has a mistake in it, findings of missing rules stay open.
            with store.transaction():
                store.run("analysis/removed_rules", known=list(self.known))
        for cluster in topology_derive.clusters(store):
            if cluster not in report.clusters:
                self.derive_topology(cluster)
        if self.corrects:
            report.corrections = find_corrections(store, self.state, self.now_us)
        if retention:
            compact(store)
            topology_derive.compact(store)
            report.more_to_retain = retain(store, self.settings, self.now_us).more
        store.checkpoint()
        return report

    def derive_topology(self, cluster: str) -> None:
        """Where devices are and what links them. A failure is reported and does not stop the analysis."""
        try:
            topology_derive.derive(self.store, cluster)
        except GpuwatchError:
            raise
        except Exception as error:  # the ledger does not depend on it; the next analysis tries again
            if was_interrupted(error):
                raise
            first = str(error).splitlines()[0] if str(error) else ""
            self.report.failed_rules.append(f"topology of {cluster}: {type(error).__name__}: {first}")


class _ClusterAnalysis:
    """The analysis of one cluster."""

    def __init__(self, whole: _Analysis, cluster: str) -> None:
        self._whole, self._cluster = whole, cluster
        self._store, self._state, self._report = whole.store, whole.state, whole.report
        self._settings = settings_of(self._state, whole.settings, cluster)
        self._overrides = layers(self._state)

    def run(self) -> None:
        """Attributes and recomputes what changed, prices it, then evaluates the rules over it."""
        methods = share_methods(self._state, self._settings.mig_share_method)
        inputs = read_inputs(self._store, self._cluster, self._settings, methods)
        pending = [self._state.setting(f"judge_{end}:{self._cluster}") for end in ("from", "until")]
        # Changes of an earlier run that stopped between the ledger and the rules are still evaluated.
        edges = [int(edge) for edge in pending if edge is not None]
        windowed = any(edge is not None for edge in self._whole.window)
        settled = not (inputs.changed or edges or windowed)
        if not settled:
            edges += self._attribute(methods)
        if edges:
            self._recompute(min(edges), max(edges))
        else:
            chargeback.price(self._store, self._state, self._cluster, settled=settled)
            self._whole.derive_topology(self._cluster)
            self._catch_up()
        self._finish(None if settled else inputs)

    def _attribute(self, methods: Sequence[tuple[int, str]]) -> list[int]:
        """Attributes devices to runs; returns the ends of the time in which the ledger changes, () where it does not."""
        store, cluster, (since_us, until_us) = self._store, self._cluster, self._whole.window
        if self._whole.progress is not None:
            self._whole.progress(f"{cluster}: who held what", 0, 1)
        attribute(store, cluster, self._settings, methods)
        if since_us is not None or until_us is not None:
            store.run("analysis/mark_dirty", cluster=cluster, since_us=since_us, until_us=until_us)
        store.run("analysis/unroll_dirty", cluster=cluster)
        self._reopen_lost()
        skip_retired(store, cluster, self._whole.compute.elsewhere)
        changed = stranding.refresh(store, cluster)
        first, last = store.sql("select min(hour_us), max(hour_us) from dirty_hour where cluster = $c", c=cluster)[0]
        changed += [hour for hour in (first, last) if hour is not None]
        return [min(changed), max(changed) + HOUR_US] if changed else []

    def _reopen_lost(self) -> None:
        """Hours that lost their samples are computed again where their devices were owned for longer than is recorded."""
        lost = lost_hours(self._store, self._cluster)
        if lost:
            open_hours = unclosed(self._store, self._cluster, lost[0], lost[-1] + HOUR_US)
            reopen(self._store, self._cluster, sorted({row["hour_us"] for row in open_hours} & set(lost)))

    def _recompute(self, from_us: int, until_us: int) -> None:
        """Recomputes the ledger's dirty hours, and evaluates the rules over this time."""
        store, state, cluster, progress = self._store, self._state, self._cluster, self._whole.progress
        state.note(f"judge_from:{cluster}", str(from_us))
        state.note(f"judge_until:{cluster}", str(until_us))
        self._report.hours += ledger_hours.recompute_dirty(
            store,
            cluster,
            self._settings,
            None if progress is None else lambda done, total: progress(f"{cluster}: hours", done, total),
            self._whole.compute,
        )
        ledger_hours.check(store, cluster, from_us, until_us)
        chargeback.price(store, state, cluster, force=True)
        self._whole.derive_topology(cluster)
        window = from_us - CHAIN_REACH_US, until_us + CHAIN_REACH_US
        known, chosen = self._whole.known, self._whole.detectors
        self._evaluate([known[name] for name in chosen], window)
        deferred = [rule for name, rule in known.items() if name not in chosen]
        if deferred:
            evaluate.defer(store, cluster, deferred, window[0])
        state.note(f"judge_from:{cluster}", None)
        state.note(f"judge_until:{cluster}", None)

    def _catch_up(self) -> None:
        """Evaluates rules with a backlog, and those that are new or have other thresholds."""
        chosen = [self._whole.known[name] for name in self._whole.detectors]
        late = evaluate.behind(self._store, self._cluster, chosen, self._thresholds)
        if late:
            query = "select max(hour_us) from ledger_hour where cluster = $c"
            last_us = self._store.sql(query, c=self._cluster)[0][0]
            self._evaluate(late, (last_us, last_us + HOUR_US))

    def _evaluate(self, chosen: Sequence[Rule], window: tuple[int, int]) -> None:
        self._report.failed_rules += evaluate.evaluate(
            self._store,
            self._state,
            self._cluster,
            self._settings,
            chosen,
            self._thresholds,
            window,
            self._whole.now_us,
            self._whole.progress,
        )

    def _thresholds(self, rule: Rule) -> tuple[ParameterSet, ...]:
        return sets_of(self._store, self._cluster, self._overrides, rule, parameters(rule, self._settings))

    def _finish(self, inputs: Inputs | None) -> None:
        query = "select count(*) from finding where cluster = $c"
        self._report.findings += self._store.sql(query, c=self._cluster)[0][0]
        if inputs is not None:
            note_inputs(self._store, self._cluster, inputs)


def clusters_of(store: Store) -> list[str]:
    """The clusters that an analysis computes."""
    rows = store.sql(
        # A cluster whose records were all taken back still has devices to remove.
        "select cluster from context union select cluster from claim union select cluster from node"
        " union select cluster from device order by 1"
    )
    return [cluster for (cluster,) in rows]


def settings_of(state: State, settings: Settings, cluster: str) -> Settings:
    """The settings with the scrape interval that a cluster's imports have."""
    interval = state.setting(f"{INTERVAL_SETTING}:{cluster}")
    if interval is None:
        return settings
    return Settings(**settings.__dict__ | {"default_interval_s": int(interval) / SECOND_US})


def parameters(rule: Rule, settings: Settings) -> dict[str, Any]:
    """A rule's thresholds, with those that the settings have; a site's own rule keeps its own."""
    if rule.sql is not None:
        return rule.parameters
    site = {
        "idle_us_min": settings.idle_minutes * MINUTE_US,
        "warm_up_us": settings.warm_up_minutes * MINUTE_US,
        "tensor_roof": settings.tensor_roof,
        "dram_roof": settings.dram_roof,
    }
    return {name: site.get(name, value) for name, value in rule.parameters.items()}
