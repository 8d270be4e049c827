"""Search by name: teams, users, jobs, nodes, GPUs and findings."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import Any

from gpuwatch.findings.read import page
from gpuwatch.findings.repository import Action
from gpuwatch.store.database import Store

KINDS = ("team", "user", "job", "node", "gpu", "finding")
"""What is found, in the order of an answer."""
EACH_MAX = 20
"""Most results of one kind."""


def search(
    store: Store, q: str, teams: Collection[str] | None, actions: Mapping[str, Action], each: int = 5
) -> list[dict[str, Any]]:
    """What has the words of `q` in its name, `each` of a kind at most. `teams`: only what is theirs.

    Findings are searched in title, summary, subject, user, team and node too; the most expensive come first.
    """
    words, most = q.strip().lower(), min(each, EACH_MAX)
    if not words:
        return []
    listed = None if teams is None else list(teams)
    found = store.rows("jobs/search", q=words, teams=listed, limit=most)
    findings = page(store, q=words, teams=teams, limit=most, actions=actions).items
    found += [
        {"kind": "finding", "id": one.key, "cluster": one.cluster, "name": f"{one.title}: {one.subject['name']}"}
        for one in findings
    ]
    return sorted(found, key=lambda row: KINDS.index(row["kind"]))
