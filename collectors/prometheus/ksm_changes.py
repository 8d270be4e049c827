"""What the store was told of kube-state-metrics, so that only news is written. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from gpuwatch.collectors.prometheus.kube_state_metrics import KIND, Told
from gpuwatch.core.clock import HOUR_US

REFRESH_US = HOUR_US
"""What does not change is written again this often."""
KEYS = {
    "claim": ("pod_uid", "run_key", "node", "profile"),
    "pending": ("job_id", "profile"),
    "node": ("node",),
    "queue": ("kind", "namespace", "name"),
}
TIMES = ("evidence_us", "observed_us", "since_us")
"""When something was said, which is no news by itself."""

Row = dict[str, Any]


class Book:
    """Rows as they were last written, of what the last span still told of."""

    def __init__(self, open_claims: Iterable[Mapping[str, Any]]) -> None:
        """`open_claims` are those that the store has."""
        self._open = {
            row["pod_uid"]: dict(row) for row in open_claims if row.get("kind") == KIND and row.get("pod_uid")
        }
        self._told: dict[tuple[Any, ...], tuple[Row, int]] = {}

    @property
    def newest_us(self) -> int | None:
        """When the pods that the store has open were last known to hold their devices."""
        return max((row["evidence_us"] or row["start_us"] for row in self._open.values()), default=None)

    def news(self, told: Told, at_us: int, last: bool) -> dict[str, list[Row]]:
        """The rows of a span that the store does not have. After the last span to catch up with, claims that the store
        has open and nobody told of any more end when they were last told of."""
        kept: dict[tuple[Any, ...], tuple[Row, int]] = {}
        news: dict[str, list[Row]] = {}
        for uid in told.pods:
            self._open.pop(uid, None)
        carrier: Row | None = None
        for table, rows in told.tables.items():
            for row in rows:
                key = (table, *(row.get(name) for name in KEYS.get(table, ())))
                before, written_us = kept.get(key) or self._told.get(key) or ({}, 0)
                if _differs(before, row) or at_us - written_us >= REFRESH_US:
                    news.setdefault(table, []).append(row)
                    written_us = at_us
                elif table == "claim" and row["end_us"] is None:
                    carrier = row
                kept[key] = row, written_us
        self._told = kept
        if carrier is not None and not any(row["end_us"] is None for row in news.get("claim", ())):
            news.setdefault("claim", []).append(carrier)  # what runs is held up to the newest word of any claim
        if last:
            for row in self._open.values():
                end_us = max(row["evidence_us"] or 0, row["start_us"] + 1)
                news.setdefault("claim", []).append(row | {"end_us": end_us, "evidence_us": end_us})
            self._open.clear()
        return news


def _differs(before: Row, row: Row) -> bool:
    return any(before.get(name) != value for name, value in row.items() if name not in TIMES)
