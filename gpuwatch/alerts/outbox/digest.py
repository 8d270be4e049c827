"""Which queued messages are sent together, and how later events replace earlier ones."""

from __future__ import annotations

import json
from collections.abc import Sequence

from gpuwatch.alerts.channel import REPORT, Channel
from gpuwatch.alerts.outbox.records import Row
from gpuwatch.alerts.record import Alert

DIGEST_ABOVE = 10
"""More queued findings than this are sent as one message, even without a digest."""


def choose(channel: Channel, rows: Sequence[Row]) -> Sequence[Row]:
    """The rows of the next message: all of them as a digest, or all about the finding or group that waits longest.

    A report is a message of its own.
    """
    if rows[0].event == REPORT:
        return rows[:1]
    rows = [row for row in rows if row.event != REPORT]
    if channel.timing.digest != "off":
        return rows
    groups: dict[tuple[object, ...], list[Row]] = {}
    for row in rows:
        groups.setdefault(_group(channel, row), []).append(row)
    if len(groups) > DIGEST_ABOVE:
        return rows
    first = next(iter(groups.values()))
    about = {row.finding_key for row in first}
    return [row for row in rows if row.finding_key in about]


def _group(channel: Channel, row: Row) -> tuple[object, ...]:
    """The group of a finding; without grouping, each finding is its own."""
    if not channel.by_group or row.rule is None:
        return (row.finding_key,)
    shared = {"team": row.team, "user": row.username, "rule": row.rule, "severity": row.severity}
    return tuple(shared[name] for name in channel.by_group)


def read(row: Row) -> Alert:
    """The alert of a row. Raises ValueError when its payload is not one."""
    try:
        payload = json.loads(row.payload)
        finding = dict(payload["finding"])
        finding["key"] = str(finding["key"])
        return Alert(row.event, row.dedup, str(payload["at"]), finding, payload["previous_severity"])
    except (ValueError, TypeError, KeyError) as error:
        raise ValueError(f"its payload is not an alert ({type(error).__name__})") from error


def fold(alerts: Sequence[Alert]) -> list[Alert]:
    """One alert for each finding, its latest, in the order in which the findings first appear.

    A finding that worsened before its opening was sent counts as opened; one that was resolved meanwhile counts as
    resolved. `earlier` names the events that were folded in.
    """
    groups: dict[str, list[Alert]] = {}
    for alert in alerts:
        groups.setdefault(alert.finding["key"], []).append(alert)
    return [_last(group) for group in groups.values()]


def _last(group: Sequence[Alert]) -> Alert:
    last = group[-1]
    earlier = tuple(alert.event for alert in group[:-1])
    event, previous = last.event, last.previous_severity
    if event == "worsened":
        previous = group[0].previous_severity
        if "opened" in earlier:
            event, previous = "opened", None
    return Alert(event, last.key, last.at, last.finding, previous, earlier)
