"""Generic webhooks: the JSON body of alerts, digests and tests. Pure: nothing is sent here."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from gpuwatch.alerts import text as alerts_text
from gpuwatch.alerts.channels.slack import clean, digest_line, plain_line
from gpuwatch.alerts.outbox.digest import Alert
from gpuwatch.alerts.templates import BUILT_IN, Template

VERSION = 1
"""Of the body: fields may be added to a version, not changed."""


def payload(alert: Alert, base_url: str | None, template: Template = BUILT_IN) -> dict[str, Any]:
    """{"version", "event", "key", "at", "previous_severity", "earlier", "link", "text", "finding"}; the finding is the
    API's, and `text` what a chat shows.
    """
    return {"version": VERSION, **_item(alert, base_url, template)}


def digest(
    alerts: Sequence[Alert],
    base_url: str | None,
    *,
    key: str,
    by: Sequence[str] = (),
    template: Template = BUILT_IN,
) -> dict[str, Any]:
    """{"version", "event": "digest", "key", "link", "text", "items": [as in payload]}: all of them, in order."""
    link = alerts_text.findings_url(base_url)
    items = [_item(alert, base_url, template) for alert in alerts]
    text = digest_line(alerts, by)[0]
    return {"version": VERSION, "event": "digest", "key": key, "link": link, "text": text, "items": items}


def test(channel: str, base_url: str | None, *, key: str) -> dict[str, Any]:
    """{"version", "event": "test", "key", "channel", "link"}."""
    return {
        "version": VERSION,
        "event": "test",
        "key": key,
        "channel": channel,
        "link": alerts_text.findings_url(base_url),
    }


def _item(alert: Alert, base_url: str | None, template: Template) -> dict[str, Any]:
    line, body = plain_line(alert, template), template.text(alert, base_url, clean)
    return {
        "event": alert.event,
        "key": alert.key,
        "at": alert.at,
        "previous_severity": alert.previous_severity,
        "earlier": list(alert.earlier),
        "link": alerts_text.finding_url(base_url, str(alert.finding.get("key"))),
        "text": line if body is None else f"{line}\n{body}",
        "finding": dict(alert.finding),
    }
