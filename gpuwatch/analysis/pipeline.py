"""From samples and scheduler records to books and findings: attribute, recompute, check, judge."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

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
from gpuwatch.policy.repository import share_methods
from gpuwatch.rules.rule import Rule, rules
from gpuwatch.settings import Settings
from gpuwatch.state import State
from gpuwatch.store.database import Store
from gpuwatch.store.retention import compact, drop_late, retain, skip_retired
from gpuwatch.topology import derive as topology_derive

CHAIN_REACH_US = HOUR_US
"""Runs of a job that follow within this continue a finding, so verdicts look that far beyond the changed hours."""

Progress = Callable[[str, int, int], None]


@dataclass
class AnalyzeReport:
    """What an analysis did."""

    clusters: list[str] = field(default_factory=list)
    hours: int = 0
    findings: int = 0
    """Findings that stand over the judged window, open or resolved."""
    failed_rules: list[str] = field(default_factory=list)
    left_out: int = 0
    """Late samples of days whose raw samples are gone."""
    corrections: int = 0
    """Lines that were posted of closed periods."""


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
) -> AnalyzeReport:
    """Brings ledger and findings up to date; running it again changes nothing.

    With `retention`, what is repeated or past its retention is deleted at the end.
    Without a window: all that is new or changed. With one: its hours are recomputed too. Raises BooksDoNotClose,
    naming the device-hour, before any finding is written; UsageError for an unknown detector.
    """
    with store.workspace() as work:
        return _analyze(work, state, settings, now_us, (since_us, until_us), detectors, retention, progress)


def _analyze(
    store: Store,
    state: State,
    settings: Settings,
    now_us: int,
    window: tuple[int | None, int | None],
    detectors: Sequence[str],
    retention: bool,
    progress: Progress | None,
) -> AnalyzeReport:
    known = {**rules(), **custom_rules.load(settings.detectors_dir, store)}
    for name in detectors:
        if name not in known:
            raise UsageError(f"--detector {name}: unknown; known: {', '.join(known)}")
    chosen = [known[name] for name in detectors or known]
    report = AnalyzeReport()
    report.failed_rules += [str(refusal) for refusal in custom_rules.refused()]
    report.left_out = drop_late(store)
    seal_all(store)
    clusters = store.sql(
        "select cluster from context union select cluster from claim union select cluster from node order by 1"
    )
    for (cluster,) in clusters:
        report.clusters.append(cluster)
        _analyze_cluster(
            store, state, settings, cluster, now_us, *window, chosen, list(known.values()), report, progress
        )
    if not custom_rules.refused():  # A slip in a file is no reason to end what it found.
        with store.transaction():
            store.run("analysis/removed_rules", known=list(known))
    for cluster in topology_derive.clusters(store):
        if cluster not in report.clusters:
            _derive_topology(store, cluster, report)
    report.corrections = find_corrections(store, state, now_us)
    if retention:
        compact(store)
        topology_derive.compact(store)
        retain(store, settings, now_us)
    store.checkpoint()
    return report


def _derive_topology(store: Store, cluster: str, report: AnalyzeReport) -> None:
    """Where devices are and what links them; a cluster whose inputs are as before costs a look."""
    try:
        topology_derive.derive(store, cluster)
    except GpuwatchError:
        raise
    except Exception as error:  # noqa: BLE001 - the books stand without it; it is told and tried again
        first = str(error).splitlines()[0] if str(error) else ""
        report.failed_rules.append(f"topology of {cluster}: {type(error).__name__}: {first}")


def _analyze_cluster(
    store: Store,
    state: State,
    settings: Settings,
    cluster: str,
    now_us: int,
    since_us: int | None,
    until_us: int | None,
    chosen: Sequence[Rule],
    known: Sequence[Rule],
    report: AnalyzeReport,
    progress: Progress | None,
) -> None:
    interval = state.setting(f"{INTERVAL_SETTING}:{cluster}")
    if interval is not None:
        settings = Settings(**{**settings.__dict__, "default_interval_s": int(interval) / SECOND_US})

    overrides = layers(state)

    def thresholds(rule: Rule) -> tuple[ParameterSet, ...]:
        return sets_of(store, cluster, overrides, rule, parameters(rule, settings))

    def judge_those(wanted: Sequence[Rule], window: tuple[int, int]) -> None:
        report.failed_rules += evaluate.evaluate(
            store, state, cluster, settings, wanted, thresholds, window, now_us, progress
        )

    if progress is not None:
        progress(f"{cluster}: who held what", 0, 1)
    attribute(store, cluster, settings, share_methods(state, settings.mig_share_method))
    if since_us is not None or until_us is not None:
        store.run("analysis/mark_dirty", cluster=cluster, since_us=since_us, until_us=until_us)
    store.run("analysis/unroll_dirty", cluster=cluster)
    skip_retired(store, cluster)
    restranded = stranding.refresh(store, cluster)
    dirty = store.sql("select min(hour_us), max(hour_us) from dirty_hour where cluster = $c", c=cluster)[0]
    # What is dirty now is judged even when the run stops between the ledger and the verdicts.
    pending = state.setting(f"judge_from:{cluster}"), state.setting(f"judge_until:{cluster}")
    edges = [int(p) for p in pending if p is not None]
    if dirty[0] is not None:
        edges += [dirty[0], dirty[1] + HOUR_US]
    if restranded:
        edges += [min(restranded), max(restranded) + HOUR_US]
    if not edges:
        chargeback.price(store, state, cluster)
        _derive_topology(store, cluster, report)
        owing = evaluate.behind(store, cluster, chosen, thresholds)
        if owing:
            last_us = store.sql("select max(hour_us) from ledger_hour where cluster = $c", c=cluster)[0][0]
            judge_those(owing, (last_us, last_us + HOUR_US))
        report.findings += store.sql("select count(*) from finding where cluster = $c", c=cluster)[0][0]
        return
    window = min(edges) - CHAIN_REACH_US, max(edges) + CHAIN_REACH_US
    state.note(f"judge_from:{cluster}", str(min(edges)))
    state.note(f"judge_until:{cluster}", str(max(edges)))
    report.hours += ledger_hours.recompute_dirty(
        store, cluster, settings, None if progress is None else lambda a, b: progress(f"{cluster}: hours", a, b)
    )
    ledger_hours.check(store, cluster, min(edges), max(edges))
    chargeback.price(store, state, cluster, force=True)
    _derive_topology(store, cluster, report)
    judge_those(chosen, window)
    evaluate.defer(store, cluster, [rule for rule in known if rule not in chosen], window[0])
    report.findings += store.sql("select count(*) from finding where cluster = $c", c=cluster)[0][0]
    state.note(f"judge_from:{cluster}", None)
    state.note(f"judge_until:{cluster}", None)


def parameters(rule: Rule, settings: Settings) -> dict[str, Any]:
    """A rule's thresholds, with those that the site sets; a site's own rule has its own, whatever their names."""
    if rule.sql is not None:
        return rule.parameters
    site = {
        "idle_us_min": settings.idle_minutes * MINUTE_US,
        "warm_up_us": settings.warm_up_minutes * MINUTE_US,
        "tensor_roof": settings.tensor_roof,
        "dram_roof": settings.dram_roof,
    }
    return {name: site.get(name, value) for name, value in rule.parameters.items()}
