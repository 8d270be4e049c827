"""The one line of an alert or digest that decides whether to open it, as every channel writes it."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from decimal import Decimal

from gpuwatch.alerts import text as alerts_text
from gpuwatch.alerts.record import Alert
from gpuwatch.alerts.templates import BUILT_IN, MAX_VALUE, Template

MAX_PART = 120
"""Length of one name in the line: job and user names may be anything."""
MAX_DIGEST = 10
"""Findings shown in a digest for people."""
ACTIONS = {"ack": "Acknowledge", "snooze": "Snooze"}
"""What owners can do: each links to the page that asks for a reason first."""

NO_MONEY = (alerts_text.NO_COST, "cost unknown")
"""A line leaves these out."""
_EVENTS = ("opened", "worsened", "resolved")


def clean(text: object) -> str:
    """One line without control, bidirectional or half characters."""
    shown = "" if text is None else str(text)
    return " ".join("".join(c if c.isprintable() else " " for c in shown).split())


def plain_line(alert: Alert, template: Template = BUILT_IN) -> str:
    """What happened, to what, whose it is and money a day, as plain text: a notification, an e-mail's subject."""
    own = template.line(alert, None, lambda text: clean(text)[:MAX_VALUE])
    if own is not None:
        return own
    what, rest = line_parts(alert, lambda text: clean(text)[:MAX_PART])
    return f"{what} · {rest}"


def line_parts(alert: Alert, show: Callable[[object], str]) -> tuple[str, str]:
    """What happened, and the rest of the line; `show` makes a value safe where it will appear."""
    finding = alert.finding
    what = show(alerts_text.what(alert.event, finding, alert.previous_severity, alert.earlier))
    amount = alerts_text.cost_so_far(finding) if alert.event == "resolved" else alerts_text.a_day(finding)
    subject, owner = alerts_text.subject(finding), alerts_text.owner(finding)
    place = " ".join(part for part in (alerts_text.where(finding), alerts_text.signs(finding)) if part)
    parts = [f"{show(finding.get('title'))}: {show(subject)}{show(place) and f' {show(place)}'}"]
    parts += [] if owner == subject else [show(owner)]
    parts += [show(amount)] if alerts_text.claims_waste(finding) and amount not in NO_MONEY else []
    return what, " · ".join(parts)


def digest_line(alerts: Sequence[Alert], by: Sequence[str] = ()) -> tuple[str, list[Alert]]:
    """The line of a digest, and its alerts: open before resolved, the most expensive first."""
    counts = {event: sum(alert.event == event for alert in alerts) for event in _EVENTS}
    events = ", ".join(f"{count} {event}" for event, count in counts.items() if count)
    title = f"{len(alerts)} finding{'s' * (len(alerts) != 1)}: {events}"
    common = alerts_text.common(alerts[0].finding, by) if alerts else []
    return " · ".join([*common, title, *_total(alerts)]), sorted(alerts, key=_rank)


def _total(alerts: Sequence[Alert]) -> list[str]:
    """Money a day of open findings; findings that claim no waste do not count."""
    opened = [alert.finding for alert in alerts if alert.event != "resolved"]
    wasteful = [finding for finding in opened if alerts_text.claims_waste(finding)]
    if not wasteful:
        return [] if opened else ["nothing open"]
    amount = _money_a_day([(alerts_text.cost_a_day(finding), finding.get("currency")) for finding in wasteful])
    return [] if amount in NO_MONEY else [amount]


def _money_a_day(amounts: Sequence[tuple[Decimal | None, str | None]]) -> str:
    """The sum of the (amount, currency) pairs, if they share a currency."""
    priced = [(amount, currency) for amount, currency in amounts if amount]
    unpriced = sum(amount is None for amount, _ in amounts)
    if not priced:
        return "cost unknown" if unpriced else alerts_text.NO_COST
    if len({currency for _, currency in priced}) > 1:
        return "several currencies"
    more = f" and {unpriced} without a price" if unpriced else ""
    return f"{alerts_text.money(sum((amount for amount, _ in priced), Decimal(0)), priced[0][1])}/day{more}"


def _rank(alert: Alert) -> tuple[bool, Decimal]:
    return alert.event == "resolved", -(alerts_text.cost_a_day(alert.finding) or Decimal(0))
