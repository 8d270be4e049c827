"""The clock of the fake API, and the odd names that real fleets have."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

NOW = datetime(2026, 11, 20, 12, tzinfo=UTC)
HOSTILE = '<img src=x onerror="window.hacked=1">'
ENDLESS = "pretraining-run-with-a-name-that-does-not-end-" * 12

Json = dict[str, Any]


def at(moment: datetime) -> str:
    """RFC 3339."""
    return moment.isoformat().replace("+00:00", "Z")
