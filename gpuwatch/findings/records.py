"""Findings as rows: what the results of a rule about one subject add up to."""

from __future__ import annotations

import hashlib
import json
from typing import Any

import pyarrow as pa

from gpuwatch.core.clock import HOUR_US
from gpuwatch.findings.results import STILL_US
from gpuwatch.ledger import workload_class
from gpuwatch.rules.rule import MEASURES, EvaluationScope, Rule
from gpuwatch.store.database import Store

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
        ("subject_kind", pa.string()),
        ("subject_id", pa.string()),
        ("subject_name", pa.string()),
        ("cause_us", pa.int64()),
        ("team", pa.string()),
        ("severity", pa.string()),
        ("nodes", pa.list_(pa.string())),
    ]
)
_COPIED = (
    "run_id", "started_us", "device_ids", "rule_version", "subject_kind", "subject_id", "subject_name", "cause_us", "team",
    "severity", "nodes",
)  # fmt: skip
"""Columns that a finding takes from its results as they are."""
_MEASURE = pa.schema([("name", pa.string()), ("how", pa.string())])


def finding_key(detector: str, cluster: str, subject: str, start_us: int) -> str:
    """The stable key of a finding: the same cause has the same key tomorrow."""
    digest = hashlib.blake2b("\x1f".join((detector, cluster, subject, str(start_us))).encode(), digest_size=8)
    return f"{detector}-{digest.hexdigest()}"


def findings_of(store: Store, rule: Rule, scope: EvaluationScope, table: str) -> pa.Table:
    """The findings about the subjects in touched_subject, from the results in `table` (verdict or new_result)."""
    columns = "* exclude (claims)" if table == "new_result" else "*"
    text = (
        f"select {columns} from {table} where detector = $detector and cluster = $cluster"
        " and (subject_kind, subject_id) in (select (subject_kind, subject_id) from touched_subject)"
    )
    store.keep("subject_result", text, detector=rule.id, cluster=scope.cluster)
    measures = [{"name": name, "how": how} for name, how in rule.measures.items() if how in MEASURES]
    with store.view("measure_how", pa.Table.from_pylist(measures, schema=_MEASURE)):
        rows = store.rows("findings/episode", detector=rule.id, cluster=scope.cluster, gap_us=rule.gap_us)
    rows = [row for row in rows if row["ended_us"] - row["started_us"] >= rule.least_us]
    classes = _classes(store, scope.cluster, rows)
    return pa.Table.from_pylist([_finding(rule, scope, row, classes) for row in rows], schema=_FINDING)


def _classes(store: Store, cluster: str, rows: list[dict[str, Any]]) -> dict[int, str]:
    """The workload class of each run that a finding is about: that of the whole run."""
    runs = sorted({row["run_id"] for row in rows if row["subject_kind"] == "job" and row["run_id"] is not None})
    query = "select min(start_us) from run where cluster = $c and list_contains($runs::bigint[], run_id)"
    first_us = store.sql(query, c=cluster, runs=runs)[0][0] if runs else None
    if first_us is None:
        return {}
    # All hours of each run, whichever other findings this pass has: the bound leaves out the history before them.
    return workload_class.of_runs(store, cluster, runs, first_us // HOUR_US * HOUR_US)


def _finding(rule: Rule, scope: EvaluationScope, row: dict[str, Any], classes: dict[int, str]) -> dict[str, Any]:
    evidence = _evidence(rule, row, classes)
    is_job = row["subject_kind"] == "job"
    open_still = row["still"] and _is_current(rule, scope, row["ended_us"])
    confidence = row["confidence"] if rule.confidence is None else rule.confidence(evidence)
    return {name: row[name] for name in _COPIED} | {
        "key": finding_key(rule.id, scope.cluster, row["subject_id"], row["cause_us"]),
        "detector": rule.id,
        "cluster": scope.cluster,
        "job_id": row["subject_id"] if is_job else None,
        "state": "open" if open_still else "resolved",
        "resolved_reason": None if open_still else "condition ended",
        "confidence": float(confidence),
        "ended_us": None if open_still else row["ended_us"],
        "last_seen_us": row["ended_us"],
        "wasted_units": "0",
        "wasted_den": 1,
        "bucket": rule.bucket,
        "evidence": json.dumps(evidence, sort_keys=True, ensure_ascii=False),
        "opened_us": scope.now_us,
    }


def _evidence(rule: Rule, row: dict[str, Any], classes: dict[int, str]) -> dict[str, Any]:
    known = {"workload_class": classes[row["run_id"]]} if row["run_id"] in classes else {}
    evidence = dict(row["numbers"] or {}) | known | dict(row["words"] or {})
    evidence = {name: int(v) if isinstance(v, float) and v.is_integer() else v for name, v in evidence.items()}
    counted = [name for name, how in rule.measures.items() if how == "devices"]
    return evidence | dict.fromkeys(counted, len(row["device_ids"]))


def _is_current(rule: Rule, scope: EvaluationScope, ended_us: int) -> bool:
    """Whether a result marked as ongoing is current: it is from this pass, or nothing was measured since."""
    still_us = max(int(rule.parameters.get("still_us", STILL_US)), STILL_US)
    evaluated_now = rule.mode != "hours" or scope.since_us < ended_us <= scope.until_us
    return evaluated_now or ended_us >= scope.known_until_us - still_us - HOUR_US
