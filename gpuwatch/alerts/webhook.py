"""Generic webhooks: the JSON body of alerts, digests and tests. Pure: nothing is sent here."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from gpuwatch.alerts import words
from gpuwatch.alerts.digest import Alert

VERSION = 1
"""Of the body: fields may be added to a version, not changed."""


def payload(alert: Alert, base_url: str | None) -> dict[str, Any]:
    """{"version", "event", "key", "at", "previous_severity", "earlier", "link", "finding"}; the finding is the API's."""
    return {"version": VERSION, **_item(alert, base_url)}


def digest(alerts: Sequence[Alert], base_url: str | None, *, key: str) -> dict[str, Any]:
    """{"version", "event": "digest", "key", "link", "items": [as in payload]}: all of them, in order."""
    link = words.findings_url(base_url)
    items = [_item(alert, base_url) for alert in alerts]
    return {"version": VERSION, "event": "digest", "key": key, "link": link, "items": items}


def test(channel: str, base_url: str | None, *, key: str) -> dict[str, Any]:
    """{"version", "event": "test", "key", "channel", "link"}."""
    return {"version": VERSION, "event": "test", "key": key, "channel": channel, "link": words.findings_url(base_url)}


def _item(alert: Alert, base_url: str | None) -> dict[str, Any]:
    return {
        "event": alert.event,
        "key": alert.key,
        "at": alert.at,
        "previous_severity": alert.previous_severity,
        "earlier": list(alert.earlier),
        "link": words.finding_url(base_url, str(alert.finding.get("key"))),
        "finding": dict(alert.finding),
    }
