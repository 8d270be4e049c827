"""Judging: rules make verdicts, verdicts make findings, and the ledger grants what findings claim of it."""

from __future__ import annotations

import hashlib
import json
from collections import defaultdict
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field, replace
from fractions import Fraction
from math import lcm
from typing import Any

import pyarrow as pa

from gpuwatch.core.clock import DAY_US, HOUR_US
from gpuwatch.core.errors import GpuwatchError
from gpuwatch.findings.custom_rules import bounded
from gpuwatch.findings.verdicts import STILL_US, ParameterSet, speak
from gpuwatch.ledger import workload_class
from gpuwatch.rules.rule import MEASURES, EvaluationScope, Rule
from gpuwatch.settings import Settings
from gpuwatch.state import State
from gpuwatch.store.database import Store

RANK = ("blind-spot", "gang-partial", "idle-hoarding", "false-utilization", "topology-blind-placement")
"""Who claims first (domain.md section 7.5); the others follow in the order of their names."""
HEARD_FIRST = ("checkpoint-stall",)
"""Rules whose verdicts those that claim before them give way to: they judge first of all."""
FIRST_REACH_US = 31 * DAY_US
"""A rule that has never judged a cluster, or has other thresholds now, judges at most this much of its past."""
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
_HOW = pa.schema([("name", pa.string()), ("how", pa.string())])
_WASTED = pa.schema([("key", pa.string()), ("units", pa.string()), ("den", pa.int64())])


Sets = Callable[[Rule], Sequence[ParameterSet]]
Progress = Callable[[str, int, int], None]


@dataclass(frozen=True)
class DryRun:
    """What a rule would say of a window, and what that would be worth. Nothing is stored."""

    findings: list[dict[str, Any]] = field(default_factory=list)
    """Rows like those of `finding`, the key among them."""
    amounts: list[dict[str, Any]] = field(default_factory=list)
    """key, bucket, model, usd_per_gpu_hour, currency, units, den: as finding_amount has them."""


def ordered(rules: Iterable[Rule]) -> list[Rule]:
    """Rules in the order in which they judge: that of their claims, but for those that others give way to."""
    places = {name: place for place, name in enumerate(HEARD_FIRST + RANK)}
    return sorted(rules, key=lambda rule: (places.get(rule.id, len(places)), rule.id))


def judge(
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
    """Runs rules over whole hours [since, until) of a cluster; returns those that failed, with the reason.

    Each rule is a transaction: one that fails leaves its findings as they were, and the others go on.
    """
    known_until_us = _known_until(store, cluster, window[1])
    told = {
        row[0]: row[1:]
        for row in store.sql(
            "select detector, rule_version, owed_from_us from rule_state where cluster = $c", c=cluster
        )
    }
    failed: list[str] = []
    batches: dict[int, list[Rule]] = defaultdict(list)
    for rule in ordered(rules):
        try:
            wanted = _version(sets(rule))
        except GpuwatchError as error:
            failed.append(f"{rule.id}: {error}")
            continue
        version, owed_us = told.get(rule.id, (None, None))
        since_us = window[0] if owed_us is None else max(min(window[0], owed_us), window[1] - FIRST_REACH_US)
        if version != wanted:
            since_us = min(since_us, _first(store, cluster, rule, version is not None, window[1]))
        batches[since_us].append(rule)
    done, total = 0, sum(len(batch) for batch in batches.values())
    for since_us, batch in sorted(batches.items(), reverse=True):
        store.run("views/job_chain", cluster=cluster, since_us=since_us, until_us=window[1])
        store.run("findings/relink", cluster=cluster)
        for rule in batch:
            if progress is not None:
                progress(f"{cluster}: {rule.id}", done, total)
            done += 1
            try:
                with bounded(store, rule), store.transaction():
                    until_us = window[1]
                    if rule.mode == "all":  # Late data of long ago must not hide what was said of the days since.
                        until_us = max(until_us, (known_until_us // HOUR_US + 1) * HOUR_US)
                    asked = _asked(store, cluster, rule, since_us, until_us, known_until_us, now_us, settings, state)
                    _judge_rule(store, rule, sets(rule), asked)
            except Exception as error:  # noqa: BLE001 - one rule never stops the others; it is recorded and owed
                reason = f"{type(error).__name__}: {str(error).splitlines()[0] if str(error) else ''}"
                failed.append(f"{rule.id}: {reason}")
                owe(store, cluster, [rule], since_us, reason)
        with store.transaction():
            _regrant(store, cluster)
    store.run("findings/drop")
    return failed


def owe(store: Store, cluster: str, rules: Iterable[Rule], from_us: int, failure: str | None = None) -> None:
    """Notes that rules have not judged what changed since `from_us`, and why: they do it when they judge next."""
    with store.transaction():
        for rule in rules:
            store.run("findings/owe", cluster=cluster, detector=rule.id, from_us=from_us, failure=failure)


def owing(store: Store, cluster: str, rules: Iterable[Rule], sets: Sets) -> list[Rule]:
    """Those rules that owe verdicts of a cluster whose books there are, never judged it, or have other thresholds now."""
    if not store.sql("select count(*) from ledger_hour where cluster = $c", c=cluster)[0][0]:
        return []
    query = "select detector, owed_from_us, rule_version from rule_state where cluster = $c"
    told = {row[0]: row[1:] for row in store.sql(query, c=cluster)}

    def owes(rule: Rule) -> bool:
        owed_us, version = told.get(rule.id, (None, None))
        try:
            return owed_us is not None or version != _version(sets(rule))
        except GpuwatchError:  # judge tells why
            return True

    return [rule for rule in rules if owes(rule)]


def failures(store: Store) -> list[dict[str, str]]:
    """Rules that failed when they judged last: cluster, detector and reason."""
    rows = store.sql("select cluster, detector, failure from rule_state where failure is not null order by all")
    return [dict(zip(("cluster", "detector", "reason"), row, strict=True)) for row in rows]


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
    """What a rule with these thresholds would have found in whole hours [since, until): other rules keep their claims.

    Works on temporary tables of this connection only. Raises what the rule's SQL raises.
    """
    since_us, until_us = window
    known_until_us = _known_until(store, cluster, until_us)
    store.run("views/job_chain", cluster=cluster, since_us=since_us, until_us=until_us)
    asked = _asked(store, cluster, rule, since_us, until_us, known_until_us, now_us, settings, state)
    speak(store, rule, sets, asked)
    store.run("findings/new_claim")
    store.run("findings/dry_claim", cluster=cluster, detector=rule.id)
    store.run("findings/grant", rank=list(RANK))
    found = _findings(store, rule, asked, "new_verdict")
    with store.view("found", found):
        amounts = store.rows("findings/dry_amount", cluster=cluster, detector=rule.id)
    store.run("findings/drop")
    return DryRun(found.to_pylist(), amounts)


def finding_key(detector: str, cluster: str, subject: str, start_us: int) -> str:
    """The stable key of a finding: the same cause has the same key tomorrow (domain.md section 7.5)."""
    digest = hashlib.blake2b("\x1f".join((detector, cluster, subject, str(start_us))).encode(), digest_size=8)
    return f"{detector}-{digest.hexdigest()}"


def _known_until(store: Store, cluster: str, until_us: int) -> int:
    found = store.sql("select max(last_us) from device where cluster = $c", c=cluster)[0][0]
    return until_us if found is None else int(found)


def _first(store: Store, cluster: str, rule: Rule, judged_before: bool, until_us: int) -> int:
    """Since when a rule judges that never did, or whose thresholds changed: all that is kept, or what stands open."""
    oldest = "select min(hour_us) from ledger_hour where cluster = $c"
    if judged_before:
        oldest = (
            "select min(started_us) from finding where cluster = $c and detector = $d and state = 'open' and $d <> ''"
        )
        found = store.sql(oldest, c=cluster, d=rule.id)[0][0]
    else:
        found = store.sql(oldest, c=cluster)[0][0]
    if found is None:
        return until_us
    return max(int(found) // HOUR_US * HOUR_US, until_us - FIRST_REACH_US)


def _asked(
    store: Store,
    cluster: str,
    rule: Rule,
    since_us: int,
    until_us: int,
    known_until_us: int,
    now_us: int,
    settings: Settings,
    state: State,
) -> EvaluationScope:
    if rule.mode == "runs":
        # Chains reach beyond the window: their whole length is judged.
        reach = store.sql("select min(chain_start_us), max(chain_end_us) from job_chain")[0]
        since_us = since_us if reach[0] is None else min(since_us, reach[0])
        until_us = until_us if reach[1] is None else max(until_us, reach[1])
    from_us = since_us - rule.look_back_us
    return EvaluationScope(
        cluster, since_us, until_us, from_us, known_until_us, now_us, rule.parameters, settings, state
    )


def _judge_rule(store: Store, rule: Rule, sets: Sequence[ParameterSet], asked: EvaluationScope) -> None:
    cluster, version = asked.cluster, _version(sets)
    speak(store, rule, sets, asked)
    if _has_news(store, rule, asked):
        _replace(store, rule, asked, version)
    general = sets[0].parameters
    if rule.unjudged is not None and general is not None:
        store.keep_file("new_unjudged", rule.unjudged, **replace(asked, parameters=general).sql_parameters())
        store.run(
            "findings/replace_unjudged",
            cluster=cluster,
            detector=rule.id,
            since_us=asked.since_us,
            until_us=asked.until_us,
        )
    store.run("findings/judged", cluster=cluster, detector=rule.id, rule_version=version)


def _has_news(store: Store, rule: Rule, asked: EvaluationScope) -> bool:
    """Whether a rule says anything, or has said anything before: most say nothing of most clusters."""
    told = store.sql(
        # Counts: DuckDB 2.0 answers EXISTS over a table of more than 122,880 rows of this transaction with false.
        "select (select count(*) from new_verdict) > 0,"
        " (select count(*) from verdict where detector = $d and cluster = $c) > 0,"
        " (select count(*) from finding where detector = $d and cluster = $c) > 0",
        d=rule.id,
        c=asked.cluster,
    )
    return any(told[0])


def _replace(store: Store, rule: Rule, asked: EvaluationScope, version: str) -> None:
    """Puts what a rule says now in the place of what it said before, and its findings likewise."""
    cluster = asked.cluster
    store.run(
        "findings/forget",
        cluster=cluster,
        detector=rule.id,
        mode=rule.mode,
        since_us=asked.since_us,
        until_us=asked.until_us,
    )
    store.run("findings/new_claim")
    store.run("findings/keep", detector=rule.id)
    found = _findings(store, rule, asked, "verdict")
    with store.view("found", found):
        store.run(
            "findings/replace_findings",
            cluster=cluster,
            detector=rule.id,
            mode=rule.mode,
            rule_version=version,
            since_us=asked.since_us,
        )


def _version(sets: Sequence[ParameterSet]) -> str:
    """The thresholds in force, of all sets, as text."""
    return " | ".join(one.version for one in sets)


def _findings(store: Store, rule: Rule, asked: EvaluationScope, table: str) -> pa.Table:
    """The findings of touched_subject, from rows of `table` (verdict or new_verdict)."""
    columns = "* exclude (claims)" if table == "new_verdict" else "*"
    text = f"select {columns} from {table} where detector = $detector and cluster = $cluster"
    store.keep("spoken_verdict", text, detector=rule.id, cluster=asked.cluster)
    how = [{"name": name, "how": how} for name, how in rule.measures.items() if how in MEASURES]
    with store.view("measure_how", pa.Table.from_pylist(how, schema=_HOW)):
        rows = store.rows("findings/episode", detector=rule.id, cluster=asked.cluster, gap_us=rule.gap_us)
    counted = [name for name, how in rule.measures.items() if how == "devices"]
    jobs = [row for row in rows if row["subject_kind"] == "job" and row["run_id"] is not None]
    since_us = min((row["started_us"] for row in jobs), default=0) // HOUR_US * HOUR_US
    classes = workload_class.of_runs(store, asked.cluster, [row["run_id"] for row in jobs], since_us) if jobs else {}
    out = []
    for row in rows:
        if row["ended_us"] - row["started_us"] < rule.least_us:
            continue
        known = {"workload_class": classes[row["run_id"]]} if row["run_id"] in classes else {}
        evidence = dict(row["numbers"] or {}) | known | dict(row["words"] or {})
        evidence = {name: int(v) if isinstance(v, float) and v.is_integer() else v for name, v in evidence.items()}
        evidence |= dict.fromkeys(counted, len(row["device_ids"]))
        is_job = row["subject_kind"] == "job"
        still = row["still"] and _fresh(rule, asked, row["ended_us"])
        confidence = row["confidence"] if rule.confidence is None else rule.confidence(evidence)
        out.append(
            {
                "key": finding_key(rule.id, asked.cluster, row["subject_id"], row["cause_us"]),
                "detector": rule.id,
                "cluster": asked.cluster,
                "job_id": row["subject_id"] if is_job else None,
                "run_id": row["run_id"],
                "state": "open" if still else "resolved",
                "resolved_reason": None if still else "condition ended",
                "confidence": float(confidence),
                "started_us": row["started_us"],
                "ended_us": None if still else row["ended_us"],
                "last_seen_us": row["ended_us"],
                "wasted_units": "0",
                "wasted_den": 1,
                "bucket": rule.bucket,
                "evidence": json.dumps(evidence, sort_keys=True, ensure_ascii=False),
                "device_ids": row["device_ids"],
                "rule_version": row["rule_version"],
                "opened_us": asked.now_us,
                "subject_kind": row["subject_kind"],
                "subject_id": row["subject_id"],
                "subject_name": row["subject_name"],
                "cause_us": row["cause_us"],
                "team": row["team"],
                "severity": row["severity"],
                "nodes": row["nodes"],
            }
        )
    return pa.Table.from_pylist(out, schema=_FINDING)


def _fresh(rule: Rule, asked: EvaluationScope, ended_us: int) -> bool:
    """Whether a row's word that its condition holds still is of now: it was judged in this pass, or nothing came after it."""
    still_us = max(int(rule.parameters.get("still_us", STILL_US)), STILL_US)
    judged_now = rule.mode != "hours" or asked.since_us < ended_us <= asked.until_us
    return judged_now or ended_us >= asked.known_until_us - still_us - HOUR_US


def _regrant(store: Store, cluster: str) -> None:
    """Deals the buckets of the hours in claim_hour anew, and says what the findings concerned waste and cost."""
    store.run("findings/wanted", cluster=cluster)
    store.run("findings/grant", rank=list(RANK))
    store.run("findings/regrant", cluster=cluster)
    reckon(store, cluster)


def reckon(store: Store, cluster: str) -> None:
    """Sums what the findings in regranted_finding were granted, exactly, and keeps its prices beside it."""
    parts: dict[str, list[tuple[int, int]]] = defaultdict(list)
    for row in store.rows("findings/wasted", cluster=cluster):
        parts[row["key"]].append((0, 1) if row["den"] is None else (int(row["units"]), row["den"]))
    rows = []
    for key, own in parts.items():
        total = sum((Fraction(units, den) for units, den in own), Fraction(0))
        den = lcm(*(den for _, den in own))
        rows.append({"key": key, "units": str(int(total * den)), "den": den})
    with store.view("wasted_row", pa.Table.from_pylist(rows, schema=_WASTED)):
        store.run("findings/set_wasted")
    store.run("findings/amounts", cluster=cluster)
