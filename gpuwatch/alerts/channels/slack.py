"""Slack messages: Block Kit payloads of alerts, digests and tests. Pure: nothing is sent here."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Any

from gpuwatch.alerts import text as alerts_text
from gpuwatch.alerts.kind import Context, MessageKind, channel_kind
from gpuwatch.alerts.lines import (
    ACTIONS,
    MAX_DIGEST,
    MAX_PART,
    NO_MONEY,
    clean,
    digest_line,
    grouped,
    line_parts,
    plain_line,
)
from gpuwatch.alerts.record import Alert
from gpuwatch.alerts.templates import BUILT_IN, MAX_VALUE, Template
from gpuwatch.report.summary import Summary

MAX_SECTION = 3000
MAX_FIELD = 2000
MAX_BLOCKS = 50
MAX_URL = 3000
MAX_LINE = 300
"""Length of the headline: a phone shows no more of it."""
MAX_SUMMARY = 600
MAX_FACTS = 10
"""Fields of a section: the most that Slack takes."""
MAX_REMEDY = 300
HEADLINE_SENTENCES = 2
"""Of a report: what was paid, and what of it was avoidable."""

_ICONS = {
    "critical": ":red_circle:",
    "high": ":red_circle:",
    "medium": ":large_orange_circle:",
    "low": ":large_yellow_circle:",
    "info": ":large_blue_circle:",
}
_HALF_ESCAPE = re.compile(r"&[a-z]{0,3}$")
_ESCAPES = {"&": "&amp;", "<": "&lt;", ">": "&gt;"}
Payload = dict[str, Any]


@channel_kind
class Slack(MessageKind):
    """A Slack incoming webhook."""

    name = "slack"

    def single(self, alert: Alert, context: Context) -> Payload:
        """Headline, facts, fix and buttons."""
        return single(alert, context.base_url, context.channel.more.template)

    def digest(self, alerts: Sequence[Alert], by: Sequence[str], context: Context) -> Payload:
        """Their sum, and the most expensive of them."""
        return digest(alerts, context.base_url, key=context.key, by=by, template=context.channel.more.template)

    def report(self, summary: Summary, context: Context) -> Payload:
        """Headline, numbers, top waste and a link to the PDF."""
        return report(summary, context.base_url, context.key)

    def test(self, context: Context) -> Payload:
        """One line."""
        return test(context.channel.name, context.base_url)


def payload(event: str, finding: Mapping[str, Any], base_url: str | None) -> Payload:
    """The message about a finding as it is now."""
    return single(Alert(event, str(finding.get("key")), "", finding), base_url)


def single(alert: Alert, base_url: str | None, template: Template = BUILT_IN) -> Payload:
    """The message about one finding: headline, facts, fix, links and key."""
    event, finding = alert.event, alert.finding
    body = template.text(alert, base_url, _shown)
    blocks = _facts(alert, template) if body is None else _written(alert, template, body)
    if event == "resolved":
        reason = alerts_text.reason(finding)
        blocks += [_section(f"*Why it ended:* {escape(reason, MAX_SUMMARY)}")] if reason and body is None else []
    elif finding.get("remedy") and body is None:
        blocks.append(_section(f"*Fix:* {escape(finding['remedy'], MAX_SUMMARY)}"))
    key = str(finding.get("key"))
    links = [("Open the finding", alerts_text.finding_url(base_url, key))]
    if event != "resolved":
        links += [(label, alerts_text.action_url(base_url, key, action)) for action, label in ACTIONS.items()]
    notes = [f"Confidence {_percent(finding.get('confidence'))}"]
    notes += [f"includes: {', '.join(alert.earlier)}"] if alert.earlier else []
    return _message(plain_line(alert, template), [*blocks, *_buttons(links), _context(notes)])


def _facts(alert: Alert, template: Template) -> list[Payload]:
    event, finding = alert.event, alert.finding
    facts = {
        "Owner": alerts_text.owner(finding),
        "Rate": alerts_text.a_day(finding),
        ("Cost so far" if event != "resolved" else "Total cost"): alerts_text.cost_so_far(finding),
        "Since" if event != "resolved" else "From": alerts_text.since(finding),
        "Where": alerts_text.place(finding),
    }
    if not alerts_text.claims_waste(finding):
        facts = {name: text for name, text in facts.items() if name in ("Owner", "Since")}
    known = {name: text for name, text in facts.items() if text not in NO_MONEY}
    fields = [_text(f"*{name}*\n{escape(text, MAX_FIELD - 50)}") for name, text in known.items()]
    return [
        _section(f"{line(alert, template)}\n{escape(finding.get('summary'), MAX_SUMMARY)}"),
        {"type": "section", "fields": fields},
    ]


def _written(alert: Alert, template: Template, body: str) -> list[Payload]:
    """The body of a template: its own mrkdwn is kept, the values in it are escaped."""
    text = f"{line(alert, template)}\n{body}"
    return [_section(_cut(text, MAX_SECTION))]


def digest(
    alerts: Sequence[Alert],
    base_url: str | None,
    *,
    key: str = "",
    by: Sequence[str] = (),
    template: Template = BUILT_IN,
) -> Payload:
    """The message about several findings: their sum, the MAX_DIGEST most expensive causes, and a link to all.

    `by` names what they have in common; it comes first.
    """
    title, groups = digest_line(alerts, by), grouped(alerts, template)
    blocks = [_section(f":bar_chart: *{escape(title, MAX_LINE)}*")]
    for group in groups[:MAX_DIGEST]:
        first = group.alerts[0]
        if len(group.alerts) == 1:
            text, url = line(first, template), alerts_text.finding_url(base_url, str(first.finding.get("key")))
        else:
            text = f"{_icon(first)} {escape(group.line(by), MAX_FIELD)}"
            url = alerts_text.findings_url(base_url, str(first.finding.get("detector")))
        blocks.append(_section(text + (f" · <{url}|open>" if url and len(url) <= MAX_URL else "")))
    left = sum(len(group.alerts) for group in groups[MAX_DIGEST:])
    blocks += _buttons([("Open all findings", alerts_text.findings_url(base_url))])
    return _message(title, [*blocks, *([_context([f"and {left} more"])] if left > 0 else [])])


def report(summary: Summary, base_url: str | None, key: str) -> Payload:
    """The message about a weekly report: the cost and what of it was avoidable, numbers, actions, and a link to the PDF."""
    first, rest = _sentences(summary.lead, HEADLINE_SENTENCES)
    blocks = [
        _section(f":page_facing_up: *{escape(first, MAX_LINE)}*" + (f"\n{escape(rest, MAX_SUMMARY)}" if rest else ""))
    ]
    numbers = [(label, " · ".join(filter(None, (value, change)))) for label, value, change in summary.numbers]
    fields = [_text(f"*{escape(label, MAX_PART)}*\n{escape(text, MAX_LINE)}") for label, text in numbers[:MAX_FACTS]]
    blocks += [{"type": "section", "fields": fields}] if fields else []
    actions = [
        f"{n}. *{escape(what, MAX_PART)}* · {escape(money, MAX_PART)} · {escape(owner, MAX_PART)}\n{escape(remedy, MAX_REMEDY)}"
        for n, (what, owner, money, remedy) in enumerate(summary.wastes, 1)
    ]
    blocks += [_section(_cut("\n".join(actions), MAX_SECTION))] if actions else []
    url = alerts_text.report_url(base_url, summary.week, summary.team, "pdf")
    notes = [summary.window, summary.budget, summary.quality]
    return _message(first, [*blocks, *_buttons([("Open the PDF", url)]), _context(notes)])


def _sentences(text: str, count: int) -> tuple[str, str]:
    """The first sentences of a text, and the rest."""
    parts = re.split(r"(?<=\.) (?=[^a-z ])", text)
    return " ".join(parts[:count]), " ".join(parts[count:])


def test(channel: str, base_url: str | None) -> Payload:
    """The message of the test button."""
    text = f"Test from gpuwatch: channel {channel} works."
    blocks = [_section(f":white_check_mark: {escape(text, MAX_LINE)}")]
    return _message(text, blocks + _buttons([("Open gpuwatch", alerts_text.findings_url(base_url))]))


def line(alert: Alert, template: Template = BUILT_IN) -> str:
    """The headline as mrkdwn: what happened, to what, whose it is, money a day."""
    icon = _icon(alert)
    own = template.line(alert, None, _shown)
    if own is not None:
        return _cut(f"{icon} {own}".strip(), MAX_FIELD)
    what, rest = line_parts(alert, escape)
    return f"{icon} *{what}* · {rest}".strip()


def _icon(alert: Alert) -> str:
    return ":white_check_mark:" if alert.event == "resolved" else _ICONS.get(str(alert.finding.get("severity")), "")


def escape(text: object, limit: int) -> str:
    """Text in at most `limit` UTF-16 units, cut with an ellipsis; no name in it becomes a mention or a link.

    An escape is never cut in two. None is empty.
    """
    parts: list[str] = []
    used = 0
    for character in clean(text):
        part = _ESCAPES.get(character, character)
        size = _size(part)
        if used + size > limit:
            while parts and used + 1 > limit:
                used -= _size(parts.pop())
            return "".join(parts) + "…"
        parts.append(part)
        used += size
    return "".join(parts)


def _cut(text: str, limit: int) -> str:
    """Escaped text in at most `limit` UTF-16 units; no escape is cut in two."""
    if _size(text) <= limit:
        return text
    kept = text.encode("utf-16-le", "replace")[: 2 * (limit - 1)].decode("utf-16-le", "ignore")
    return f"{_HALF_ESCAPE.sub('', kept)}…"


def _percent(ratio: object) -> str:
    return f"{ratio:.0%}" if isinstance(ratio, int | float) else "unknown"


def _message(text: str, blocks: list[Payload]) -> Payload:
    return {
        "text": escape(text, MAX_SECTION),
        "blocks": blocks[:MAX_BLOCKS],
        "unfurl_links": False,
        "unfurl_media": False,
    }


def _section(text: str) -> Payload:
    return {"type": "section", "text": _text(text)}


def _context(notes: Sequence[str]) -> Payload:
    return {"type": "context", "elements": [_text(escape(note, MAX_FIELD)) for note in notes]}


def _buttons(links: Sequence[tuple[str, str | None]]) -> list[Payload]:
    """Link buttons; none where the service has no public address."""
    buttons = [
        {"type": "button", "text": {"type": "plain_text", "text": label}, "url": url}
        for label, url in links
        if url is not None and len(url) <= MAX_URL
    ]
    return [{"type": "actions", "elements": buttons}] if buttons else []


def _shown(value: object) -> str:
    return escape(value, MAX_VALUE)


def _text(text: str) -> Payload:
    """`verbatim`: Slack makes no links, channels or mentions of plain words; `text` is escaped already."""
    return {"type": "mrkdwn", "text": text, "verbatim": True}


def _size(text: str) -> int:
    return sum(2 if ord(c) > 0xFFFF else 1 for c in text)
