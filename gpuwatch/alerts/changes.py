"""Changes since a channel was last notified: findings that opened, worsened or were resolved."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import replace
from functools import partial

from gpuwatch.alerts.channel import Channel, rank
from gpuwatch.alerts.firing.repository import Firing
from gpuwatch.alerts.kind import is_continuous
from gpuwatch.alerts.outbox.records import ANSWERED, Change, Mark
from gpuwatch.alerts.outbox.repository import Outbox
from gpuwatch.alerts.outbox.tables import About
from gpuwatch.alerts.repository import Channels
from gpuwatch.core.clock import HOUR_US, MINUTE_US, rfc3339
from gpuwatch.findings.read import Finding
from gpuwatch.state import State

REOPEN_QUIET_US = HOUR_US
"""A finding that opens again this soon after it was resolved is sent only if it is still open when the time is over."""

ELSEWHERE = "elsewhere"
"""For a fallback channel, the state of an open finding that another channel receives."""
HANDLED = ("acked", "snoozed", "exempt")
"""States set by an owner: nothing is sent, and queued messages are withdrawn."""


def enqueue(state: State, findings: Sequence[Finding], now_us: int) -> int:
    """Queues the changes for every enabled channel; returns how many messages were queued.

    `findings` are all findings in every state, most expensive first (findings.read). Calling it again with the same
    findings queues nothing, so a crash at any instant neither loses nor repeats a message.
    """
    outbox, firing = Outbox(state), Firing(state)
    channels = [channel for channel in Channels(state).list() if channel.enabled]
    written = 0
    for channel in channels:
        mine = for_channel(channel, findings, channels)
        if is_continuous(channel.kind):
            written += firing.update(channel.name, [finding.as_dict() for finding in fires(channel, mine)], now_us)
            continue
        timing = channel.timing
        written += outbox.update(
            channel.name,
            partial(changes, channel, mine, now_us=now_us),
            timing.due_us(now_us),
            now_us,
            urgent=() if timing.digest != "off" else timing.passing,
            throttle_us=0 if timing.digest != "off" else timing.throttle_minutes * MINUTE_US,
        )
    return written


def for_channel(channel: Channel, findings: Sequence[Finding], channels: Sequence[Channel]) -> Sequence[Finding]:
    """The findings for a channel: all, or for a fallback those that no other channel receives.

    A fallback gets only the resolution of other findings, if it received their opening.
    """
    if not channel.fallback:
        return findings
    others = [other for other in channels if not other.fallback]
    received = (f.state == "open" and any(other.receives(f) for other in others) for f in findings)
    return [replace(f, state=ELSEWHERE) if elsewhere else f for f, elsewhere in zip(findings, received, strict=True)]


def fires(channel: Channel, findings: Sequence[Finding]) -> list[Finding]:
    """The firing alerts of a continuous channel: every open finding that it receives."""
    return [finding for finding in findings if finding.state == "open" and channel.receives(finding)]


def changes(channel: Channel, findings: Sequence[Finding], marks: Mapping[str, Mark], now_us: int) -> list[Change]:
    """New marks and messages of one channel, in the order of `findings`; pure."""
    found = (_change(channel, finding, marks.get(finding.key), now_us) for finding in findings)
    return [change for change in found if change is not None]


def _change(channel: Channel, finding: Finding, mark: Mark | None, now_us: int) -> Change | None:
    if finding.state in HANDLED:
        return _answered(finding, mark, now_us)
    if finding.state == ELSEWHERE:
        return None
    if finding.state == "resolved":
        return _resolved(channel, finding, mark, now_us)
    if not channel.covers(finding):
        return _answered(finding, mark, now_us)  # it belongs to another team now: queued messages are theirs
    if mark is not None and mark.state == "open":
        return _worsened(channel, finding, mark, now_us)
    return _opened(channel, finding, mark, now_us)


def _answered(finding: Finding, mark: Mark | None, now_us: int) -> Change | None:
    """Once the snooze ends, the finding is reopened, or it is this channel's again, it opens again."""
    if mark is None or mark.state != "open":
        return None
    return Change(finding.key, Mark(ANSWERED, mark.severity, mark.episode, now_us))


def _resolved(channel: Channel, finding: Finding, mark: Mark | None, now_us: int) -> Change | None:
    """A resolution is sent only where the opening was sent: old history is no alert."""
    if mark is None or mark.state not in ("open", ANSWERED):
        return None
    resolved = Mark("resolved", mark.severity, mark.episode, now_us)
    if not channel.covers(finding):
        return Change(finding.key, resolved)  # it is another team's by now: their names do not belong here
    return _notified(channel, finding, "resolved", resolved, mark.severity, now_us)


def _worsened(channel: Channel, finding: Finding, mark: Mark, now_us: int) -> Change | None:
    """Compared with the highest severity sent, so that a severity that swings is sent once a level."""
    if rank(finding.severity) <= rank(mark.severity) or not channel.receives(finding):
        return None
    worsened = Mark("open", finding.severity, mark.episode, now_us)
    return _notified(channel, finding, "worsened", worsened, mark.severity, now_us)


def _opened(channel: Channel, finding: Finding, mark: Mark | None, now_us: int) -> Change | None:
    if not channel.receives(finding):
        quiet = Mark("quiet", finding.severity, 0, now_us)
        return Change(finding.key, quiet) if mark is None else None
    if mark is not None and mark.state == "resolved" and now_us - mark.at_us < REOPEN_QUIET_US:
        return None
    opened = Mark("open", finding.severity, 1 if mark is None else mark.episode + 1, now_us)
    crossed = mark is not None and mark.state == "quiet" and rank(mark.severity) < rank(finding.severity)
    event = "worsened" if crossed and "worsened" in channel.events else "opened"
    return _notified(channel, finding, event, opened, mark.severity if crossed and mark else None, now_us)


def _notified(channel: Channel, finding: Finding, event: str, mark: Mark, previous: str | None, now_us: int) -> Change:
    """The mark moves even if the channel does not want this event: later events depend on it."""
    if event not in channel.events:
        return Change(finding.key, mark)
    payload = {"at": rfc3339(now_us), "previous_severity": previous, "finding": finding.as_dict()}
    about = About(finding.severity, finding.detector, finding.team, finding.user)
    return Change(finding.key, mark, event, json.dumps(payload), about)
