"""Alertmanager: findings as alerts of its API v2. Pure: nothing is sent here.

https://github.com/prometheus/alertmanager/blob/main/api/v2/openapi.yaml
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from gpuwatch.alerts import text as alerts_text
from gpuwatch.alerts.firing.repository import FiringAlert
from gpuwatch.alerts.kind import Context, ContinuousKind, channel_kind
from gpuwatch.alerts.lines import NO_MONEY, clean, plain_line
from gpuwatch.alerts.record import Alert
from gpuwatch.alerts.templates import Template
from gpuwatch.core.clock import MINUTE_US, parse_rfc3339, rfc3339

PATH = "/api/v2/alerts"
TEST_US = MINUTE_US
"""How long the alert of the test button fires."""


@channel_kind
class Alertmanager(ContinuousKind):
    """Prometheus Alertmanager, API v2."""

    name = "alertmanager"
    receiver = "Alertmanager"
    logs_in = True
    labels = True

    def push(self, alerts: Sequence[FiringAlert], lasts_us: int, context: Context) -> list[dict[str, Any]]:
        """One alert for each finding and severity."""
        more, url = context.channel.more, context.base_url
        labels = dict(more.labels)
        return [alert(a.content, a.severity, a.ended_us or lasts_us, url, labels, more.template) for a in alerts]

    def test(self, context: Context) -> list[dict[str, Any]]:
        """An alert that ends by itself."""
        return test(context.channel.name, context.base_url, context.now_us)

    def endpoint(self, url: str) -> str:
        """The API below the address of the Alertmanager."""
        return endpoint(url)


def endpoint(url: str) -> str:
    """Where alerts are posted: `url` is the address of the Alertmanager, with its path prefix if it has one."""
    base = url.rstrip("/")
    return base if base.endswith(PATH) else f"{base}{PATH}"


def alert(
    finding: Mapping[str, Any],
    severity: str,
    ends_us: int,
    base_url: str | None,
    more: Mapping[str, str],
    template: Template,
) -> dict[str, Any]:
    """One alert. Its labels are its identity, so the severity is the only one that may change; `more` are the labels of
    the channel. It fires until `ends_us` unless it is pushed again.
    """
    key, opened = str(finding.get("key")), Alert("opened", "", "", finding)
    about = finding.get("subject")
    subject: Mapping[str, Any] = about if isinstance(about, Mapping) else {}
    labels = {
        **more,
        "alertname": name(str(finding.get("detector"))),
        "rule": finding.get("detector"),
        "severity": severity,
        "team": finding.get("team"),
        "cluster": finding.get("cluster"),
        "subject_kind": subject.get("kind"),
        "subject": subject.get("id"),
        "finding": key,
    }
    body = template.text(opened, base_url, clean)
    amounts = {"cost": alerts_text.cost_so_far(finding), "rate": alerts_text.a_day(finding)}
    annotations = {
        "summary": plain_line(opened, template),
        "description": body if body is not None else finding.get("summary"),
        "remedy": finding.get("remedy"),
        "owner": alerts_text.owner(finding),
        **{
            name: amount
            for name, amount in amounts.items()
            if alerts_text.claims_waste(finding) and amount not in NO_MONEY
        },
    }
    link = alerts_text.finding_url(base_url, key)
    return {
        "labels": _texts(labels),
        "annotations": _texts(annotations),
        "startsAt": rfc3339(min(parse_rfc3339(str(finding["started_at"])), ends_us)),  # no end before its start
        "endsAt": rfc3339(ends_us),
        **({"generatorURL": link} if link else {}),
    }


def test(channel: str, base_url: str | None, now_us: int) -> list[dict[str, Any]]:
    """The alert of the test button: it ends by itself."""
    link = alerts_text.findings_url(base_url)
    return [
        {
            "labels": {"alertname": "GpuwatchTest", "severity": "info", "channel": channel},
            "annotations": {"summary": f"Test from gpuwatch: channel {channel} works."},
            "startsAt": rfc3339(now_us),
            "endsAt": rfc3339(now_us + TEST_US),
            **({"generatorURL": link} if link else {}),
        }
    ]


def name(rule: str) -> str:
    """`GpuwatchIdleHoarding` for idle-hoarding: the naming style of Prometheus alerts."""
    return "Gpuwatch" + "".join(part.capitalize() for part in rule.replace("_", "-").split("-"))


def _texts(found: Mapping[str, object]) -> dict[str, str]:
    """Non-empty values as text: Alertmanager treats an empty label as missing."""
    shown = {key: str(value).strip() for key, value in found.items() if value is not None}
    return {key: value for key, value in shown.items() if value}
