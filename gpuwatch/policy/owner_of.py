"""Who would own something, and by which rule: the answer of the rules that are in force."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

from gpuwatch.core.errors import UsageError
from gpuwatch.policy.inferred import Ownership, decide
from gpuwatch.policy.ownership import parse_labels
from gpuwatch.policy.repository import load_ownership
from gpuwatch.state import State
from gpuwatch.store.database import Store

RUNS_MAX = 20
"""Different runs of a job that an answer lists."""
_WORDS = ("cluster", "queue", "namespace", "account", "user_name")


def owners_of(
    store: Store, state: State, words: Mapping[str, str | None], labels: Mapping[str, str], job: str | None
) -> list[dict[str, Any]]:
    """The owner of what has these words and labels; with `job`, of each different run of a job or pod of that name.

    Raises UsageError if there is no such job.
    """
    ownership = load_ownership(store, state)
    if job is None:
        return [_answer(ownership, {**words, "labels": json.dumps(dict(labels))})]
    rows = store.rows("policy/runs_of_job", job=job, cluster=words.get("cluster"), limit=RUNS_MAX)
    if not rows:
        raise UsageError(
            f"job {job!r}: no job or pod of this name has run; give its namespace, account or user instead"
        )
    given = {name: value for name, value in words.items() if value}
    return [_answer(ownership, row | given | _labels(row, labels)) for row in rows]


def _labels(row: Mapping[str, Any], more: Mapping[str, str]) -> dict[str, str]:
    return {"labels": json.dumps(parse_labels(row["labels"]) | dict(more))} if more else {}


def _answer(ownership: Ownership, words: Mapping[str, Any]) -> dict[str, Any]:
    found = decide(ownership, words, json.loads(words["own"]) if words.get("own") else None)
    rule = None
    if found.place is not None:
        decides = ownership.rules[found.place]
        kind = {"match_kind": decides.match_kind, "match": decides.match, "team": decides.team}
        rule = {"place": found.place + 1} | kind
    of = {name.removesuffix("_name"): words.get(name) for name in _WORDS}
    of["labels"] = (
        ", ".join(f"{name}={value}" for name, value in sorted(parse_labels(words.get("labels")).items())) or None
    )
    return {"team": found.team, "why": found.why, "inferred": found.inferred, "rule": rule, "of": of}
