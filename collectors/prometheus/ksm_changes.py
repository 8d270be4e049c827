"""Which records of kube-state-metrics changed since they were last written. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from gpuwatch.collectors.prometheus.kube_state_metrics import KIND, SpanRecords
from gpuwatch.collectors.shared.changes import REFRESH_US
from gpuwatch.collectors.shared.records import Columns

KEYS = {
    "claim": ("pod_uid", "run_key", "node", "profile"),
    "pending": ("job_id", "profile"),
    "node": ("node",),
    "queue": ("kind", "namespace", "name"),
}
TIMES = ("evidence_us", "observed_us", "since_us")
"""Columns whose change alone is ignored."""


class KsmChanges:
    """The rows of the last span as they were last written."""

    def __init__(self, open_claims: Iterable[Mapping[str, Any]]) -> None:
        """`open_claims` are those in the store."""
        self._open = {
            row["pod_uid"]: dict(row) for row in open_claims if row.get("kind") == KIND and row.get("pod_uid")
        }
        self._written: dict[tuple[Any, ...], tuple[Columns, int]] = {}

    @property
    def newest_us(self) -> int | None:
        """The newest evidence of the open claims in the store."""
        return max((row["evidence_us"] or row["start_us"] for row in self._open.values()), default=None)

    def changed_rows(self, records: SpanRecords, at_us: int, last: bool) -> dict[str, list[Columns]]:
        """The changed rows of a span. After the last span (`last`), open claims of the store that were not seen again end
        at their newest evidence."""
        kept: dict[tuple[Any, ...], tuple[Columns, int]] = {}
        changed: dict[str, list[Columns]] = {}
        for uid in records.pods:
            self._open.pop(uid, None)
        carrier: Columns | None = None
        for table, rows in records.tables.items():
            for row in rows:
                key = _key(table, row)
                before, written_us = kept.get(key) or self._written.get(key) or ({}, 0)
                if _differ(before, row) or at_us - written_us >= REFRESH_US:
                    changed.setdefault(table, []).append(row)
                    written_us = at_us
                elif table == "claim" and row["end_us"] is None:
                    carrier = row
                kept[key] = row, written_us
        self._written = kept
        if carrier is not None and not any(row["end_us"] is None for row in changed.get("claim", ())):
            changed.setdefault("claim", []).append(carrier)  # one claim carries the newest evidence for all
        if last and (ended := self._end_open()):
            changed.setdefault("claim", []).extend(ended)
        return changed

    def _end_open(self) -> list[Columns]:
        """The open claims of the store that were not seen again, each ended at its newest evidence."""
        ended = [_ended(row) for row in self._open.values()]
        self._open.clear()
        return ended


def _key(table: str, row: Columns) -> tuple[Any, ...]:
    """What identifies a record in all spans."""
    return (table, *(row.get(name) for name in KEYS.get(table, ())))


def _differ(before: Columns, row: Columns) -> bool:
    """Whether any column but the times has changed."""
    return any(before.get(name) != value for name, value in row.items() if name not in TIMES)


def _ended(row: Columns) -> Columns:
    """A claim that ends at its newest evidence."""
    end_us = max(row["evidence_us"] or 0, row["start_us"] + 1)
    return row | {"end_us": end_us, "evidence_us": end_us}
