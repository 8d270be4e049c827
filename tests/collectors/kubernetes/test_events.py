"""Events of both APIs."""

from __future__ import annotations

import json
from pathlib import Path

from gpuwatch.collectors.kubernetes.events import event_row
from gpuwatch.core.clock import parse_rfc3339

ROOT = Path(__file__).parents[3]


def test_both_event_apis_give_the_same_columns() -> None:
    items = json.loads((ROOT / "tests/data/k8s/events.json").read_text())["items"]
    rows = [event_row(item) for item in items]
    first = [parse_rfc3339(t) for t in ("2026-11-02T11:00:01Z", "2026-11-02T11:00:03.250001Z")]
    last = [parse_rfc3339(t) for t in ("2026-11-02T11:20:00Z", "2026-11-02T11:10:00Z")]

    assert [("ev-1", "big-0", 5, first[0], last[0]), ("ev-2", "big-1", 3, first[1], last[1])] == [
        (r["event_id"], r["name"], r["count"], r["first_us"], r["last_us"]) for r in rows
    ]
