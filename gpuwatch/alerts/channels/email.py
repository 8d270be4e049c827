"""E-mails of findings, digests, reports and tests: text and HTML of one message. Pure: nothing is sent here."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from email.message import EmailMessage
from email.policy import SMTP
from email.utils import format_datetime
from hashlib import sha256
from typing import Any

from gpuwatch.alerts import text as alerts_text
from gpuwatch.alerts.delivery.email_server import Mail
from gpuwatch.alerts.kind import Context, MessageKind, channel_kind
from gpuwatch.alerts.lines import ACTIONS, MAX_DIGEST, NO_MONEY, clean, digest_line, grouped, plain_line
from gpuwatch.alerts.record import Alert
from gpuwatch.alerts.templates import BUILT_IN, Template
from gpuwatch.core.clock import from_us
from gpuwatch.report.format_registry import report_formats
from gpuwatch.report.html.markup import Child, Html, join, tag
from gpuwatch.report.summary import Summary

MAX_SUBJECT = 200
ATTACHED_MAX_BYTES = 10_000_000
"""Attachments of one message, before they are encoded; what does not fit is linked."""
_STYLE = "font:14px/1.45 system-ui,-apple-system,'Segoe UI',Arial,sans-serif;color:#1C2326;max-width:640px"
_SOFT = "color:#566067;font-size:13px"
_CELL = "padding:4px 12px 4px 0;border-bottom:1px solid #D9DEE1;text-align:left;vertical-align:top"

Fields = Sequence[tuple[str, str]]
Links = Sequence[tuple[str, str | None]]


@channel_kind
class Email(MessageKind):
    """Messages through a mail server."""

    name = "email"
    mails = True

    def single(self, alert: Alert, context: Context) -> EmailMessage:
        """Facts and links for the owner."""
        channel = context.channel
        return single(_mail(context), alert, context.base_url, context.key, context.now_us, channel.more.template)

    def digest(self, alerts: Sequence[Alert], by: Sequence[str], context: Context) -> EmailMessage:
        """The most expensive findings, and a link to all."""
        template = context.channel.more.template
        return digest(_mail(context), alerts, context.base_url, context.key, context.now_us, by, template)

    def report(self, summary: Summary, context: Context) -> EmailMessage:
        """The summary of the report, with its files."""
        files, now_us = context.files, context.now_us
        return report(_mail(context), summary, context.to, context.base_url, files, context.key, now_us)

    def test(self, context: Context) -> EmailMessage:
        """One line."""
        return test(_mail(context), context.channel.name, context.base_url, context.key, context.now_us)


def _mail(context: Context) -> Mail:
    mail = context.channel.mail
    if mail is None:
        raise ValueError(f"channel {context.channel.name} has no mail server")
    return mail


def single(
    mail: Mail, alert: Alert, base_url: str | None, key: str, now_us: int, template: Template = BUILT_IN
) -> EmailMessage:
    """The message about one finding, with links for its owner."""
    finding = alert.finding
    subject, identity = plain_line(alert, template), str(finding.get("key"))
    links = [("Open the finding", alerts_text.finding_url(base_url, identity))]
    if alert.event != "resolved":
        links += [(label, alerts_text.action_url(base_url, identity, action)) for action, label in ACTIONS.items()]
    body = template.text(alert, base_url, clean)
    if body is not None:
        return _message(mail, mail.to, subject, body, (), links, key, now_us)
    facts: list[tuple[str, str]] = [
        ("Owner", alerts_text.owner(finding)),
        ("Rate", alerts_text.a_day(finding)),
        ("Cost so far" if alert.event != "resolved" else "Total cost", alerts_text.cost_so_far(finding)),
        ("Since" if alert.event != "resolved" else "From", alerts_text.since(finding)),
        ("Where", alerts_text.place(finding)),
    ]
    if not alerts_text.claims_waste(finding):
        facts = [fact for fact in facts if fact[0] in ("Owner", "Since")]
    facts = [fact for fact in facts if fact[1] not in NO_MONEY]
    if finding.get("remedy") and alert.event != "resolved":
        facts.append(("Fix", str(finding["remedy"])))
    if alert.event == "resolved" and (reason := alerts_text.reason(finding)):
        facts.append(("Why it ended", reason))
    return _message(mail, mail.to, subject, clean(finding.get("summary")), facts, links, key, now_us)


def digest(
    mail: Mail,
    alerts: Sequence[Alert],
    base_url: str | None,
    key: str,
    now_us: int,
    by: Sequence[str] = (),
    template: Template = BUILT_IN,
) -> EmailMessage:
    """The message about several findings by cause, most expensive first; `by` names what they have in common."""
    title, groups = digest_line(alerts, by), grouped(alerts, template)
    lines = [plain_line(g.alerts[0], template) if len(g.alerts) == 1 else g.line() for g in groups[:MAX_DIGEST]]
    facts = [(str(number), line) for number, line in enumerate(lines, 1)]
    left = sum(len(group.alerts) for group in groups[MAX_DIGEST:])
    if left > 0:
        facts.append(("", f"and {left} more"))
    link = alerts_text.findings_url(base_url)
    return _message(mail, mail.to, title, "", facts, [("Open all findings", link)], key, now_us)


def test(mail: Mail, channel: str, base_url: str | None, key: str, now_us: int) -> EmailMessage:
    """The message of the test button."""
    text = f"Test from gpuwatch: channel {channel} works."
    return _message(mail, mail.to, text, "", (), [("Open gpuwatch", alerts_text.findings_url(base_url))], key, now_us)


def report(
    mail: Mail,
    summary: Summary,
    to: Sequence[str],
    base_url: str | None,
    files: Mapping[str, bytes],
    key: str,
    now_us: int,
) -> EmailMessage:
    """The message about a report: its numbers and top waste, a link, and `files` (by suffix) as far as they fit."""
    paid = summary.numbers[0] if summary.numbers else ("", "", "")
    changed = f", {paid[2]}" if paid[2] else ""
    subject = f"{summary.title}: {paid[1]}{changed}" if paid[1] else summary.title
    facts: list[tuple[str, str]] = [(label, f"{value}  {change}".strip()) for label, value, change in summary.numbers]
    facts += [(f"Action {n}", _waste(*waste)) for n, waste in enumerate(summary.wastes, 1)]
    facts += [
        ("Budget", summary.budget.removeprefix("Budget of ")),
        ("Data quality", summary.quality),
        ("Window", summary.window),
    ]
    link = alerts_text.report_url(base_url, summary.week, summary.team, "pdf")
    message = _message(mail, to, subject, clean(summary.lead), facts, [("Open the report", link)], key, now_us)
    media_types = {
        form.suffix: "application/octet-stream" if form.is_text else form.media_type
        for form in report_formats().values()
    }
    left = ATTACHED_MAX_BYTES
    for suffix, content in files.items():
        if len(content) <= left:
            left -= len(content)
            kind, _, subtype = media_types[suffix].partition("/")
            name = f"gpuwatch-{summary.stem.replace('/', '-')}.{suffix}"
            message.add_attachment(content, maintype=kind, subtype=subtype, filename=name)
    return message


def message_id(key: str, sender: str) -> str:
    """The same for the same key, so that mail programs recognize a repeated message."""
    return f"<{sha256(key.encode()).hexdigest()[:40]}@{sender.rpartition('@')[2]}>"


def _waste(what: str, owner: str, money: str, remedy: str) -> str:
    return f"{money}: {what} ({owner}). {remedy}".strip()


def _message(
    mail: Mail,
    to: Sequence[str],
    subject: str,
    lead: str,
    facts: Fields,
    links: Links,
    key: str,
    now_us: int,
) -> EmailMessage:
    """Headers hold nothing that could end them; user-chosen names never become markup."""
    message: Any = EmailMessage(policy=SMTP)
    line = clean(subject)
    message["Subject"] = line if len(line) <= MAX_SUBJECT else f"{line[: MAX_SUBJECT - 1]}…"
    message["From"] = mail.sender
    message["To"] = ", ".join(to)
    message["Date"] = format_datetime(from_us(now_us))
    message["Message-ID"] = message_id(key, mail.sender)
    message["Auto-Submitted"] = "auto-generated"
    shown = [(label, url) for label, url in links if url]
    message.set_content(_plain(line, lead, facts, shown))
    message.add_alternative(_html(line, lead, facts, shown), subtype="html")
    return message  # type: ignore[no-any-return]


def _plain(title: str, lead: str, facts: Fields, links: Links) -> str:
    lines = [title, ""]
    lines += [lead, ""] if lead else []
    lines += [f"{clean(name)}: {clean(text)}" if name else clean(text) for name, text in facts]
    lines += ["", *(f"{label}: {url}" for label, url in links)] if links else []
    return "\n".join([*lines, ""])


def _html(title: str, lead: str, facts: Fields, links: Links) -> Html:
    rows: list[Child] = [
        tag(
            "tr",
            tag("td", clean(name), style=f"{_CELL};white-space:nowrap;{_SOFT}"),
            tag("td", clean(text), style=_CELL),
        )
        for name, text in facts
    ]
    anchors: list[Child] = [tag("a", label, href=url, style="margin-right:16px") for label, url in links]
    body = tag(
        "div",
        tag("h2", title, style="font-size:18px;margin:0 0 8px"),
        [tag("p", clean(part)) for part in lead.split("\n") if part.strip()],
        tag("table", rows, style="border-collapse:collapse") if rows else None,
        tag("p", anchors) if anchors else None,
        tag("p", "Sent by gpuwatch.", style=_SOFT),
        style=_STYLE,
    )
    return join(Html("<!DOCTYPE html>\n"), tag("html", tag("body", body), lang="en"))
