"""Generic webhooks: the JSON body of alerts, digests and tests. Pure: nothing is sent here."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from gpuwatch.alerts import text as alerts_text
from gpuwatch.alerts.kind import Context, MessageKind, channel_kind
from gpuwatch.alerts.lines import clean, digest_line, plain_line
from gpuwatch.alerts.record import Alert
from gpuwatch.alerts.templates import BUILT_IN, Template
from gpuwatch.report.summary import Summary

VERSION = 1
"""Version of the body: a version may gain fields, but never changes one."""


@channel_kind
class Webhook(MessageKind):
    """Any server that takes JSON."""

    name = "webhook"
    findings_max = 100
    signs = True
    logs_in = True

    def single(self, alert: Alert, context: Context) -> dict[str, Any]:
        """The finding as the API shows it, with its event."""
        return payload(alert, context.base_url, context.channel.more.template)

    def digest(self, alerts: Sequence[Alert], by: Sequence[str], context: Context) -> dict[str, Any]:
        """All findings, in order."""
        return digest(alerts, context.base_url, key=context.key, by=by, template=context.channel.more.template)

    def report(self, summary: Summary, context: Context) -> dict[str, Any]:
        """The summary of the report, and a link to its PDF."""
        return report(summary, context.base_url, context.key)

    def test(self, context: Context) -> dict[str, Any]:
        """An event of its own."""
        return test(context.channel.name, context.base_url, key=context.key)


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
    text = digest_line(alerts, by)
    return {"version": VERSION, "event": "digest", "key": key, "link": link, "text": text, "items": items}


def report(summary: Summary, base_url: str | None, key: str) -> dict[str, Any]:
    """{"version", "event": "report", "key", "link", "report"}."""
    link = alerts_text.report_url(base_url, summary.week, summary.team, "pdf")
    return {"version": VERSION, "event": "report", "key": key, "link": link, "report": summary.as_dict()}


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
