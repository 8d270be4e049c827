"""Earlier findings of the same rule about the same subject: whether something came back."""

from __future__ import annotations

from collections.abc import Collection
from typing import Any

from gpuwatch.core.clock import DAY_US, parse_rfc3339, rfc3339
from gpuwatch.findings.read import page
from gpuwatch.findings.record import Finding
from gpuwatch.store.database import Store

BEFORE_US = 30 * DAY_US
EARLIER_MAX = 10


def earlier(store: Store, finding: Finding, teams: Collection[str] | None = None) -> list[dict[str, Any]]:
    """The findings of the 30 days before this one began, the latest first; with `teams` only theirs. Withdrawn ones are left out."""
    rows = store.sql(
        "select key, started_us, coalesce(ended_us, last_seen_us) from finding"
        " where cluster = $cluster and detector = $detector and subject_kind = $kind and subject_id = $id"
        " and started_us < $start and started_us >= $since"
        " and coalesce(resolved_reason not in ('rule_changed', 'records changed'), true)"
        " order by started_us desc, key limit $most",
        cluster=finding.cluster,
        detector=finding.detector,
        kind=finding.subject["kind"],
        id=finding.subject["id"],
        start=(start_us := parse_rfc3339(finding.started_at)),
        since=start_us - BEFORE_US,
        most=EARLIER_MAX,
    )
    keys = [key for key, _, _ in rows]
    # The team of a finding is that of its run by the ownership rules of now.
    seen = set(keys) if teams is None or not keys else {one.key for one in page(store, keys=keys, teams=teams).items}
    return [
        {"key": key, "started_at": rfc3339(started_us), "ended_at": rfc3339(ended_us)}
        for key, started_us, ended_us in rows
        if key in seen
    ]
