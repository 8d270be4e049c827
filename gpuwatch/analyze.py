"""From samples and scheduler records to books and findings: attribute, recompute, check, judge."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from fractions import Fraction
from math import lcm
from typing import Any

import pyarrow as pa

from gpuwatch import cost, ledger, policy, topology_store
from gpuwatch.attribution import attribute
from gpuwatch.clock import HOUR_US, MINUTE_US, SECOND_US
from gpuwatch.detectors.rule import Rule, rules, version_of
from gpuwatch.errors import GpuwatchError, UsageError
from gpuwatch.ingest import INTERVAL_SETTING, seal_all
from gpuwatch.periods import find_corrections
from gpuwatch.retention import compact, drop_late, retain, skip_retired
from gpuwatch.settings import Settings
from gpuwatch.state import State
from gpuwatch.store import Store

CHAIN_REACH_US = HOUR_US
"""Runs of a job that follow within this continue a finding, so verdicts look that far beyond the changed hours."""

_FINDING = pa.schema(
    [
        ("key", pa.string()),
        ("detector", pa.string()),
        ("cluster", pa.string()),
        ("job_id", pa.string()),
        ("run_id", pa.int64()),
        ("state", pa.string()),
        ("resolved_reason", pa.string()),
        ("confidence", pa.float64()),
        ("started_us", pa.int64()),
        ("ended_us", pa.int64()),
        ("last_seen_us", pa.int64()),
        ("wasted_units", pa.string()),
        ("wasted_den", pa.int64()),
        ("bucket", pa.string()),
        ("evidence", pa.string()),
        ("device_ids", pa.list_(pa.int64())),
        ("rule_version", pa.string()),
        ("opened_us", pa.int64()),
    ]
)

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
    known = rules()
    for name in detectors:
        if name not in known:
            raise UsageError(f"--detector {name}: unknown; known: {', '.join(known)}")
    chosen = [known[name] for name in detectors or known]
    report = AnalyzeReport()
    report.left_out = drop_late(store)
    seal_all(store)
    clusters = store.sql(
        "select cluster from context union select cluster from claim union select cluster from node order by 1"
    )
    for (cluster,) in clusters:
        report.clusters.append(cluster)
        _analyze_cluster(store, state, settings, cluster, now_us, since_us, until_us, chosen, report, progress)
    _derive_topology(store, report)
    report.corrections = find_corrections(store, state, now_us)
    if retention:
        compact(store)
        topology_store.compact(store)
        retain(store, settings, now_us)
    store.checkpoint()
    return report


def _derive_topology(store: Store, report: AnalyzeReport) -> None:
    """Where devices are and what links them; a cluster whose inputs are as before costs a look."""
    for cluster in topology_store.clusters(store):
        try:
            topology_store.derive(store, cluster)
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
    report: AnalyzeReport,
    progress: Progress | None,
) -> None:
    interval = state.setting(f"{INTERVAL_SETTING}:{cluster}")
    if interval is not None:
        settings = Settings(**{**settings.__dict__, "default_interval_s": int(interval) / SECOND_US})
    if progress is not None:
        progress(f"{cluster}: who held what", 0, 1)
    attribute(store, cluster, settings, policy.share_methods(state, settings.mig_share_method))
    if since_us is not None or until_us is not None:
        store.run("ledger/mark_dirty", cluster=cluster, since_us=since_us, until_us=until_us)
    store.run("cost/unroll_dirty", cluster=cluster)
    skip_retired(store, cluster)
    dirty = store.sql("select min(hour_us), max(hour_us) from dirty_hour where cluster = $c", c=cluster)[0]
    # What is dirty now is judged even when the run stops between the ledger and the verdicts.
    pending = state.setting(f"judge_from:{cluster}"), state.setting(f"judge_until:{cluster}")
    edges = [int(p) for p in pending if p is not None]
    if dirty[0] is not None:
        edges += [dirty[0], dirty[1] + HOUR_US]
    if not edges:
        cost.price(store, state, cluster)
        report.findings += store.sql("select count(*) from finding where cluster = $c", c=cluster)[0][0]
        return
    judge = min(edges) - CHAIN_REACH_US, max(edges) + CHAIN_REACH_US
    state.note(f"judge_from:{cluster}", str(min(edges)))
    state.note(f"judge_until:{cluster}", str(max(edges)))
    report.hours += ledger.recompute_dirty(
        store, cluster, settings, None if progress is None else lambda a, b: progress(f"{cluster}: hours", a, b)
    )
    ledger.check(store, cluster, min(edges), max(edges))
    cost.price(store, state, cluster, force=True)
    failed = _judge(store, cluster, settings, chosen, judge, now_us, progress)
    report.failed_rules += failed
    report.findings += store.sql("select count(*) from finding where cluster = $c", c=cluster)[0][0]
    # A rule that failed, or that was not asked for, still owes its verdicts on these hours.
    if not failed and len(chosen) == len(rules()):
        state.note(f"judge_from:{cluster}", None)
        state.note(f"judge_until:{cluster}", None)


def _judge(
    store: Store,
    cluster: str,
    settings: Settings,
    chosen: Sequence[Rule],
    window: tuple[int, int],
    now_us: int,
    progress: Progress | None,
) -> list[str]:
    """Runs the rules over the chains of runs that touch the window; returns those that failed, with the reason."""
    since_us, until_us = window
    store.run("views/job_chain", cluster=cluster, since_us=since_us, until_us=until_us)
    # Chains reach beyond the window: their whole length is judged.
    reach = store.sql("select min(chain_start_us), max(chain_end_us) from job_chain")[0]
    since_us = since_us if reach[0] is None else min(since_us, reach[0])
    until_us = until_us if reach[1] is None else max(until_us, reach[1])
    failed = []
    for number, rule in enumerate(chosen):
        if progress is not None:
            progress(f"{cluster}: {rule.id}", number, len(chosen))
        try:
            with store.transaction():
                _judge_rule(store, cluster, rule, parameters(rule, settings), since_us, until_us, now_us)
        except Exception as error:  # noqa: BLE001 - one rule never stops the others; it is recorded and owed
            failed.append(f"{rule.id}: {type(error).__name__}: {str(error).splitlines()[0] if str(error) else ''}")
    store.run("detectors_state/drop")
    return failed


def _judge_rule(
    store: Store,
    cluster: str,
    rule: Rule,
    parameters: dict[str, Any],
    since_us: int,
    until_us: int,
    now_us: int,
) -> None:
    version = version_of(parameters)
    rows = store.rows(f"detectors/{rule.stem}", **parameters, cluster=cluster, since_us=since_us, until_us=until_us)
    found = _findings(store, cluster, rule, version, rows, now_us)
    with store.view("found", found):
        store.run(
            "detectors_state/replace_findings", cluster=cluster, detector=rule.id, rule_version=version, now_us=now_us
        )
    if rule.id == "false-utilization":
        store.run("detectors_state/replace_unjudged", **parameters, cluster=cluster, detector=rule.id)


def parameters(rule: Rule, settings: Settings) -> dict[str, Any]:
    """A rule's thresholds, with those that the site sets."""
    site = {
        "idle_us_min": settings.idle_minutes * MINUTE_US,
        "warm_up_us": settings.warm_up_minutes * MINUTE_US,
        "tensor_roof": settings.tensor_roof,
        "dram_roof": settings.dram_roof,
    }
    return {name: site.get(name, value) for name, value in rule.parameters.items()}


def _findings(
    store: Store, cluster: str, rule: Rule, version: str, rows: Sequence[dict[str, Any]], now_us: int
) -> pa.Table:
    """One finding a chain: rows of one chain differ in the share of the GPU only."""
    chains = {
        row[0]: row[1:]
        for row in store.sql(
            "select chain, any_value(job_id), min(chain_start_us), arg_min(run_id, start_us) from job_chain group by chain"
        )
    }
    by_chain: dict[str, list[dict[str, Any]]] = {}
    for row in rows:
        by_chain.setdefault(row["chain"], []).append(row)
    out = []
    for chain, parts in by_chain.items():
        job_id, chain_start_us, run_id = chains[chain]
        wasted = sum((Fraction(int(p["wasted_units"]), p["share_den"]) for p in parts), Fraction(0))
        den = lcm(*(p["share_den"] for p in parts))
        best = max(parts, key=lambda p: (Fraction(int(p["wasted_units"]), p["share_den"]), p["ended_us"]))
        still = any(p["still"] for p in parts)
        ended_us = max(p["ended_us"] for p in parts)
        out.append(
            {
                "key": finding_key(rule.id, cluster, job_id, chain_start_us),
                "detector": rule.id,
                "cluster": cluster,
                "job_id": job_id,
                "run_id": run_id,
                "state": "open" if still else "resolved",
                "resolved_reason": None if still else "condition ended",
                "confidence": float(best["confidence"]),
                "started_us": min(p["started_us"] for p in parts),
                "ended_us": None if still else ended_us,
                "last_seen_us": ended_us,
                "wasted_units": str(int(wasted * den)),
                "wasted_den": den,
                "bucket": rule.bucket,
                "evidence": best["evidence"],
                "device_ids": sorted({d for p in parts for d in p["device_ids"]}),
                "rule_version": version,
                "opened_us": now_us,
            }
        )
    return pa.Table.from_pylist(out, schema=_FINDING)


def finding_key(detector: str, cluster: str, subject: str, start_us: int) -> str:
    """The stable key of a finding: the same cause has the same key tomorrow (domain.md section 7.5)."""
    digest = hashlib.blake2b("\x1f".join((detector, cluster, subject, str(start_us))).encode(), digest_size=8)
    return f"{detector}-{digest.hexdigest()}"
