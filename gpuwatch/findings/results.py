"""Results of rules: the rows of their SQL, whatever columns it returns, in one shape."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any, Protocol

from gpuwatch.core.clock import HOUR_US, MINUTE_US
from gpuwatch.core.errors import GpuwatchError
from gpuwatch.rules.rule import EvaluationScope, Rule
from gpuwatch.store.database import Store

SITE_SUBJECTS_MAX = 100_000
"""Subjects that a site's own rule may return at a time: each is a finding in memory."""
STILL_US = 10 * MINUTE_US
"""A condition that held this shortly before the last sample counts as open, unless the rule has its own `still_us`."""

_COLUMNS = {
    "subject_kind": "varchar",
    "subject_id": "varchar",
    "subject_name": "varchar",
    "run_id": "bigint",
    "team": "varchar",
    "start_us": "bigint",
    "end_us": "bigint",
    "still": "boolean",
    "confidence": "double",
    "severity": "varchar",
    "device_ids": "bigint[]",
    "nodes": "varchar[]",
    "numbers": "map(varchar, double)",
    "words": "map(varchar, varchar)",
    "claims": "struct(device_id bigint, run_id bigint, hour_us bigint, bucket varchar, us bigint)[]",
}
"""The columns that a rule's SQL may return, with their types."""


class ParameterSet(Protocol):
    """Thresholds that hold for the runs and devices of one number (tables rule_set_run, rule_set_device)."""

    @property
    def number(self) -> int:
        """0: for all runs and devices that are not in those tables."""

    @property
    def parameters(self) -> dict[str, Any] | None:
        """The thresholds; None: the rule is switched off there."""

    @property
    def version(self) -> str:
        """These thresholds as text, with the preset that they are based on."""


def collect(store: Store, rule: Rule, sets: Sequence[ParameterSet], scope: EvaluationScope) -> int:
    """Makes new_result: the rule's rows of the window, the runs and devices of each set by its own thresholds.

    Returns how many rows it has. Where no set found anything, new_result is not made.
    """
    made, rows = False, 0
    for one in sets:
        if one.parameters is None:
            continue  # switched off there
        at = replace(scope, parameters=one.parameters)
        if rule.prepare is not None:
            rule.prepare(store, at)
        if rule.sql is None:
            found = store.keep_file("found_row", f"detectors/{rule.stem}", **at.sql_parameters())
        else:
            found = store.keep("found_row", rule.sql, **at.sql_parameters())
        if not found and rule.sql is None:
            continue
        query = _normal(store, rule, len(sets) > 1)  # checks the columns of a site's rule even where it finds nothing
        words = _row_words(rule, at, one.version) | ({"number": one.number} if len(sets) > 1 else {})
        rows += store.insert_as("new_result", query, **words) if made else store.keep("new_result", query, **words)
        made = True
    if rule.sql is not None and rows:
        (subjects,) = store.sql("select count(distinct (subject_kind, subject_id)) from new_result")[0]
        if subjects > SITE_SUBJECTS_MAX:
            raise GpuwatchError(
                f"returns {subjects:,} subjects; at most {SITE_SUBJECTS_MAX:,} are allowed: narrow its select"
            )
    return rows


def _row_words(rule: Rule, at: EvaluationScope, version: str) -> dict[str, Any]:
    still_us = max(int(at.parameters.get("still_us", STILL_US)), STILL_US)
    return {
        "detector": rule.id,
        "cluster": at.cluster,
        "version": version,
        "from_us": at.since_us,
        "until_us": at.until_us,
        "whole": rule.mode != "hours",
        "still_from_us": at.known_until_us - still_us,
    }


def _normal(store: Store, rule: Rule, by_set: bool) -> str:
    """The SELECT that turns found_row into rows of new_result; `by_set`: only those of one parameter set."""
    names = {row[0] for row in store.sql("select column_name from (describe found_row)")}
    unknown = sorted(names - set(_COLUMNS) - {"chain", "hour_us"})
    if unknown:
        raise ValueError(f"{rule.id}: its SQL returns {', '.join(unknown)}; known: chain, {', '.join(_COLUMNS)}")
    subject = {"chain"} if "chain" in names else {"subject_kind", "subject_id"}
    lacking = sorted((subject | {"start_us", "end_us"}) - names)
    if lacking:
        raise ValueError(f"{rule.id}: its SQL does not return {', '.join(lacking)}")
    given = {n: f"f.{n}::{kind}" if n in names else f"null::{kind}" for n, kind in _COLUMNS.items()}
    joined = "found_row f"
    cause, ended, kept = "null::bigint", "false", "true"
    if "chain" in names:
        both = rule.sql is None and "subject_kind" in names  # a built-in rule about jobs and other subjects
        joined += " left" if both else ""
        joined += " join (select chain, any_value(job_id) as job_id, any_value(name) as name, min(chain_start_us) as chain_us,"
        joined += " arg_min(run_id, start_us) as first_run, bool_and(ended) as ended,"
        joined += " max(exempt_until_us) as exempt_until_us from job_chain group by chain) c on c.chain = f.chain"
        job = {"subject_kind": "'job'", "subject_id": "c.job_id", "subject_name": "c.name"}
        given |= (
            {n: f"case when f.chain is null then {given[n]} else {value} end" for n, value in job.items()}
            if both
            else job
        )
        given["run_id"] = f"coalesce({given['run_id']}, c.first_run)"
        # The finding of an ended job is not open, and time before the end of an exemption stays exempt.
        cause, ended, kept = "c.chain_us", "coalesce(c.ended, false)", "coalesce(f.end_us > c.exempt_until_us, true)"
    own = (
        f" and coalesce((select number from rule_set_run s where s.run_id = {given['run_id']}),"
        f" case when {given['run_id']} is null then"
        f" (select number from rule_set_device s where s.device_id = ({given['device_ids']})[1]) end, 0) = $number"
    )
    claims = given["claims"] if rule.bucket is not None else f"null::{_COLUMNS['claims']}"
    return (
        f"select $detector as detector, $cluster as cluster, {given['subject_kind']} as subject_kind,"
        f" {given['subject_id']} as subject_id, {given['subject_name']} as subject_name, {cause} as cause_us,"
        f" {given['run_id']} as run_id, {given['team']} as team, (f.start_us // {HOUR_US} * {HOUR_US})::bigint as hour_us,"
        f" {given['start_us']} as start_us, {given['end_us']} as end_us,"
        f" coalesce({given['still']}, f.end_us >= $still_from_us and not {ended}) as still,"
        f" coalesce({given['confidence']}, 1.0) as confidence, {given['severity']} as severity,"
        f" list_sort(coalesce({given['device_ids']}, [])) as device_ids, {given['nodes']} as nodes,"
        f" {given['numbers']} as numbers, {given['words']} as words, $version as rule_version, {claims} as claims"
        f" from {joined}"
        f" where ($whole or (f.start_us >= $from_us and f.start_us < $until_us))"
        f" and {kept}"
        f"{own if by_set else ''}"
    )
