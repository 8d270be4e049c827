"""The one line of an alert or digest that decides whether to open it, as every channel writes it."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from decimal import Decimal
from typing import Any

from gpuwatch.alerts import text as alerts_text
from gpuwatch.alerts.record import Alert
from gpuwatch.alerts.templates import BUILT_IN, MAX_VALUE, Template
from gpuwatch.core.words import counted

MAX_PART = 120
"""Length of one name in the line: job and user names may be anything."""
MAX_HEADLINE = 300
"""Length of a headline, which has several names."""
MAX_DIGEST = 10
"""Causes shown in a digest for people."""
MAX_NAMES = 3
"""Jobs, GPUs or pools that the line of a cause names."""
Show = Callable[[object, int], str]
"""Makes a value safe where it will appear, in at most so many characters."""
ACTIONS = {"ack": "Acknowledge", "snooze": "Snooze"}
"""What owners can do: each links to the page that asks for a reason first."""

NO_MONEY = (alerts_text.NO_COST, alerts_text.NOT_A_DAY, "cost unknown")
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
    what, rest = line_parts(alert, lambda text, limit: clean(text)[:limit])
    return f"{what} · {rest}"


def line_parts(alert: Alert, show: Show) -> tuple[str, str]:
    """What happened, and the rest of the line; `show` makes a value safe where it will appear, and cuts it."""
    finding = alert.finding
    what = show(alerts_text.what(alert.event, finding, alert.previous_severity, alert.earlier), MAX_PART)
    amount = alerts_text.cost_so_far(finding) if alert.event == "resolved" else alerts_text.amount(finding)
    parts = _about(finding, show)
    parts += [show(amount, MAX_PART)] if alerts_text.claims_waste(finding) and amount not in NO_MONEY else []
    return what, " · ".join(parts)


def _about(finding: Mapping[str, Any], show: Show) -> list[str]:
    """What happens to whom, and where: the finding's headline, or the title of its rule with its subject and owner."""
    if happens := finding.get("headline"):
        return [show(happens, MAX_HEADLINE)]
    subject, owner = alerts_text.subject(finding), alerts_text.owner(finding)
    place = " ".join(part for part in (alerts_text.where(finding), alerts_text.signs(finding)) if part)
    title, about, at = (show(text, MAX_PART) for text in (finding.get("title"), subject, place))
    line = f"{title}: {about}{at and f' {at}'}"
    return [line] if owner == subject else [line, show(owner, MAX_PART)]


@dataclass(frozen=True)
class Group:
    """Findings of a digest with the same cause: one rule's, all open or all over."""

    alerts: tuple[Alert, ...]

    def line(self, by: Sequence[str] = ()) -> str:
        """`5 x GPUs held and idle: lattice-qcd, vit-pretrain, clip-align and 2 more · physics, nlp · $213/day`; without the teams where
        the digest is grouped `by` team or user.
        """
        findings = [alert.finding for alert in self.alerts]
        named = list(dict.fromkeys(clean(alerts_text.short(finding))[:MAX_PART] for finding in findings))
        more = f" and {len(named) - MAX_NAMES} more" if len(named) > MAX_NAMES else ""
        over = "Resolved · " if self.alerts[0].event == "resolved" else ""
        line = f"{over}{len(findings)} x {clean(findings[0].get('title'))[:MAX_PART]}: {', '.join(named[:MAX_NAMES])}{more}"
        return " · ".join([line, *([] if {"team", "user"} & set(by) else _teams(findings)), *_total(self.alerts, "")])


def _teams(findings: Sequence[Mapping[str, Any]]) -> list[str]:
    """`team nlp`, `physics, nlp, vision and 2 more teams`; empty where no finding is of a team."""
    teams = dict.fromkeys(str(one.get("team")) for one in findings if not str(one.get("team") or "__").startswith("__"))
    named = [clean(team)[:MAX_PART] for team in teams]
    if len(named) == 1:
        return [f"team {named[0]}"]
    more = f" and {len(named) - MAX_NAMES} more teams" if len(named) > MAX_NAMES else ""
    return [f"{', '.join(named[:MAX_NAMES])}{more}"] if named else []


def grouped(alerts: Sequence[Alert], template: Template = BUILT_IN) -> list[Group]:
    """The findings by cause, the most expensive cause first, open ones before resolved ones. A channel's own words for a line
    are about one finding, so with them each has its own.
    """
    ranked = sorted(alerts, key=_rank)
    causes: dict[object, list[Alert]] = {}
    for place, alert in enumerate(ranked):
        cause = (alert.event == "resolved", alert.finding.get("detector")) if template.subject is None else place
        causes.setdefault(cause, []).append(alert)
    return sorted((Group(tuple(group)) for group in causes.values()), key=_group_rank)


def _group_rank(group: Group) -> tuple[bool, Decimal]:
    amounts = [alerts_text.cost_a_day(alert.finding) or Decimal(0) for alert in group.alerts]
    return group.alerts[0].event == "resolved", -sum(amounts, Decimal(0))


def digest_line(alerts: Sequence[Alert], by: Sequence[str] = ()) -> str:
    """The first line of a digest: what its findings have in common, how many there are, and money a day."""
    counts = {event: sum(alert.event == event for alert in alerts) for event in _EVENTS}
    events = ", ".join(f"{count} {event}" for event, count in counts.items() if count)
    title = f"{counted(len(alerts), 'finding')}: {events}"
    common = alerts_text.common(alerts[0].finding, by) if alerts else []
    return " · ".join([*common, title, *_total(alerts)])


def _total(alerts: Sequence[Alert], closed: str = "nothing open") -> list[str]:
    """Money a day of open findings; findings that claim no waste do not count. `closed` where none is open."""
    opened = [alert.finding for alert in alerts if alert.event != "resolved"]
    wasteful = [finding for finding in opened if alerts_text.claims_waste(finding)]
    if not wasteful:
        return [] if opened or not closed else [closed]
    young = {alerts_text.a_day(finding) for finding in wasteful} <= {*NO_MONEY}
    amounts = [(alerts_text.cost_a_day(finding), finding.get("currency")) for finding in wasteful]
    amount = _money(amounts, " so far" if young else "/day")
    return [] if amount in NO_MONEY else [amount]


def _money(amounts: Sequence[tuple[Decimal | None, str | None]], unit: str) -> str:
    """The sum of the (amount, currency) pairs, if they share a currency; ` so far` where none of them has lasted a day."""
    priced = [(amount, currency) for amount, currency in amounts if amount]
    unpriced = sum(amount is None for amount, _ in amounts)
    if not priced:
        return "cost unknown" if unpriced else alerts_text.NO_COST
    if len({currency for _, currency in priced}) > 1:
        return "several currencies"
    more = f" and {unpriced} without a price" if unpriced else ""
    return f"{alerts_text.money(sum((amount for amount, _ in priced), Decimal(0)), priced[0][1])}{unit}{more}"


def _rank(alert: Alert) -> tuple[bool, Decimal]:
    return alert.event == "resolved", -(alerts_text.cost_a_day(alert.finding) or Decimal(0))
