"""Texts that people write for their messages: named fields in `$`, no code. Pure."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from string import Template as Dollars
from typing import TYPE_CHECKING, Any

from gpuwatch.alerts import text as alerts_text

if TYPE_CHECKING:
    from gpuwatch.alerts.record import Alert

MAX_SUBJECT = 300
MAX_BODY = 2000
MAX_VALUE = 600
"""Characters of one field's value."""

FIELDS = {
    "event": "opened, worsened or resolved",
    "what": "the event in words: High, Worsened to critical (was high), Resolved",
    "severity": "info, low, medium, high or critical",
    "previous_severity": "of worsened: the severity before",
    "title": "title of the rule",
    "headline": "what happens to whom, and where",
    "rule": "id of the rule",
    "owner": "team and user in words",
    "team": "team",
    "user": "user",
    "subject": "kind, id and name of what it is about",
    "subject_kind": "job, gpu, slice, node, pool, team or queue",
    "subject_id": "its id",
    "cluster": "cluster",
    "nodes": "nodes, comma-separated",
    "rate": "money a day",
    "cost": "money and GPU-hours so far",
    "since": "from when, how long",
    "started_at": "start of the condition, RFC 3339",
    "ended_at": "its end, RFC 3339",
    "summary": "one sentence",
    "remedy": "one sentence",
    "reason": "of resolved: why it is over",
    "evidence": "the first numbers of the evidence",
    "confidence": "in percent",
    "link": "the finding in the UI",
    "ack_link": "the finding, ready to be acknowledged",
    "snooze_link": "the finding, ready to be snoozed",
    "key": "key of the finding",
}
"""Fields of a template, and what stands in each; one that is not known is empty."""

Show = Callable[[object], str]
"""Makes a value harmless where it will stand."""


@dataclass(frozen=True)
class Template:
    """The words of a message about one finding; None: those of the program. `subject` is also its line in a digest."""

    subject: str | None = None
    body: str | None = None

    def line(self, alert: Alert, base_url: str | None, show: Show) -> str | None:
        """The one line that decides, with what `alert` says."""
        return None if self.subject is None else " ".join(_filled(self.subject, alert, base_url, show).split())

    def text(self, alert: Alert, base_url: str | None, show: Show) -> str | None:
        """What stands below it; lines as they were written."""
        return None if self.body is None else _filled(self.body, alert, base_url, show)


BUILT_IN = Template()
"""The words of the program."""


def problem(text: object, limit: int) -> str | None:
    """What is wrong with a template: no text, too long, an unknown field, a lone `$`. None: nothing."""
    if text is None:
        return None
    if not isinstance(text, str) or not text.strip() or len(text) > limit:
        return f"must be a text of 1 to {limit} characters, or absent"
    template = Dollars(text)
    if not template.is_valid():
        at = next(found.start() for found in template.pattern.finditer(text) if found["invalid"] is not None)
        return f"has a $ at character {at + 1} that names no field; write $$ for a dollar"
    unknown = [name for name in template.get_identifiers() if name not in FIELDS]
    if unknown:
        return f"has ${unknown[0]}, which is not known; known: {', '.join(f'${name}' for name in FIELDS)}"
    return None


def values(alert: Alert, base_url: str | None) -> dict[str, str]:
    """What stands in each field of FIELDS."""
    finding, key = alert.finding, str(alert.finding.get("key"))
    about = finding.get("subject")
    subject: Mapping[str, Any] = about if isinstance(about, Mapping) else {}
    ratio = finding.get("confidence")
    found: dict[str, object] = {
        "event": alert.event,
        "what": alerts_text.what(alert.event, finding, alert.previous_severity, alert.earlier),
        "previous_severity": alert.previous_severity,
        "rule": finding.get("detector"),
        "owner": alerts_text.owner(finding),
        "subject": alerts_text.subject(finding),
        "subject_kind": subject.get("kind"),
        "subject_id": subject.get("id"),
        "nodes": ", ".join(str(node) for node in finding.get("nodes") or []),
        "rate": alerts_text.a_day(finding),
        "cost": alerts_text.cost_so_far(finding),
        "since": alerts_text.since(finding),
        "reason": alerts_text.reason(finding),
        "evidence": "; ".join(alerts_text.evidence(finding)),
        "confidence": f"{ratio:.0%}" if isinstance(ratio, int | float) else None,
        "link": alerts_text.finding_url(base_url, key),
        "ack_link": alerts_text.action_url(base_url, key, "ack"),
        "snooze_link": alerts_text.action_url(base_url, key, "snooze"),
        "key": key,
    }
    shown = {name: found[name] if name in found else finding.get(name) for name in FIELDS}
    return {name: "" if value is None else str(value) for name, value in shown.items()}


def _filled(text: str, alert: Alert, base_url: str | None, show: Show) -> str:
    return Dollars(text).substitute({name: show(value) for name, value in values(alert, base_url).items()})
