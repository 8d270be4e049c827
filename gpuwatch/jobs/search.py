"""Search by name: teams, users, jobs that ran or wait, nodes, GPUs and findings."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import Any

from gpuwatch.capacity.waits import WAITING
from gpuwatch.capacity.workloads import workloads
from gpuwatch.findings.read import page
from gpuwatch.findings.repository import Action
from gpuwatch.state import State
from gpuwatch.store.database import Store

KINDS = ("team", "user", "job", "node", "gpu", "finding")
"""What is found, in the order of an answer."""
EACH_MAX = 20
"""Most results of one kind."""


def search(
    store: Store,
    state: State,
    q: str,
    teams: Collection[str] | None,
    actions: Mapping[str, Action],
    at_us: int,
    each: int = 5,
) -> list[dict[str, Any]]:
    """What has the words of `q` in its name, `each` of a kind at most. `teams`: only what is theirs. Jobs that wait at `at_us`
    come before those that ran.

    Findings are searched in title, summary, subject, user, team and node too; the most expensive come first.
    """
    words, most = q.strip().lower(), min(each, EACH_MAX)
    if not words:
        return []
    listed = None if teams is None else list(teams)
    found = [row | {"waits": False} for row in store.rows("jobs/search", q=words, teams=listed, limit=most)]
    found = _with_waiting(found, waiting(store, state, words, teams, at_us, most), most)
    findings = page(store, q=words, teams=teams, limit=most, actions=actions).items
    found += [
        {
            "kind": "finding",
            "id": one.key,
            "cluster": one.cluster,
            "name": f"{one.title}: {one.subject['name']}",
            "waits": False,
        }
        for one in findings
    ]
    return sorted(found, key=lambda row: KINDS.index(row["kind"]))


def waiting(
    store: Store, state: State, words: str, teams: Collection[str] | None, at_us: int, most: int
) -> list[dict[str, Any]]:
    """The jobs that wait with these words in id or name, the longest wait first."""
    rows = workloads(store, state, at_us, teams, states=WAITING, bound=teams is not None)
    named = [
        {"kind": "job", "id": row["job"], "cluster": row["cluster"], "name": row["name"], "waits": True}
        for row in rows
        if row["job"] and any(words in str(row[part] or "").lower() for part in ("job", "name"))
    ]
    return named[:most]


def _with_waiting(found: list[dict[str, Any]], waits: list[dict[str, Any]], most: int) -> list[dict[str, Any]]:
    """Jobs that wait before those that ran, each job once, `most` in all."""
    known = {(row["id"], row["cluster"]) for row in waits}
    ran = [row for row in found if row["kind"] == "job" and (row["id"], row["cluster"]) not in known]
    return [*(row for row in found if row["kind"] != "job"), *[*waits, *ran][:most]]
