"""A notification channel: its destination, and which findings it receives."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from gpuwatch.alerts.channel_options import More
from gpuwatch.alerts.delivery.email_server import Mail
from gpuwatch.alerts.timing import SEVERITIES, Timing

if TYPE_CHECKING:
    from gpuwatch.findings.read import Finding

ALWAYS, NOTHING_MORE = Timing(), More()
EVENTS = ("opened", "worsened", "resolved")
"""What happens to findings. REPORT is one more event, sent only to channels that name it."""
REPORT = "report"
FILTERS = ("teams", "rules", "clusters")

MAX_CHANNELS = 100
HINT_LAST = 4
"""Characters of a webhook URL that may be shown, so that people can tell two of them apart."""
HINT_SECRET_MIN = 16
"""No part of a shorter path is shown: four of its characters would reveal too much."""


@dataclass(frozen=True)
class Channel:
    """One destination. `url` is a secret: no text made by this class contains it."""

    name: str
    kind: str
    url: str = field(repr=False)
    severity_min: str = "medium"
    severity_max: str = "critical"
    teams: tuple[str, ...] | None = None
    """None: all teams; likewise rules (detector ids) and clusters."""
    rules: tuple[str, ...] | None = None
    clusters: tuple[str, ...] | None = None
    fallback: bool = False
    """Receives only findings that no other enabled channel receives."""
    events: tuple[str, ...] = EVENTS
    group_by: tuple[str, ...] = ()
    enabled: bool = True
    origin: str = "api"
    """`file`: it is set in gpuwatch.toml and can be changed only there."""
    mail: Mail | None = None
    """Server, sender and recipients of an e-mail channel, whose `url` is empty."""
    timing: Timing = ALWAYS
    more: More = NOTHING_MORE

    @property
    def secret(self) -> str:
        """What is never shown: the address of a webhook, the password of a mail server."""
        return self.url if self.mail is None else self.mail.password or ""

    @property
    def by_group(self) -> tuple[str, ...]:
        """What the findings of one message have in common. A throttled channel sends one message a rule and owner."""
        throttled = ("team", "user", "rule") if self.timing.throttle_minutes else ()
        return self.group_by or throttled

    def public(self) -> dict[str, Any]:
        """The channel as the API shows it, without secrets."""
        where = {"url_hint": url_hint(self.url)} if self.mail is None else self.mail.public()
        return {"name": self.name, "kind": self.kind, **where, **self.settings(), **self.more.public()}

    def settings(self) -> dict[str, Any]:
        """Everything but the name, the kind and secrets."""
        return {
            "severity_min": self.severity_min,
            "severity_max": self.severity_max,
            **{name: None if (part := getattr(self, name)) is None else list(part) for name in FILTERS},
            "fallback": self.fallback,
            "events": list(self.events),
            "group_by": list(self.group_by),
            "enabled": self.enabled,
            "origin": self.origin,
            **self.timing.settings(),
            **self.more.settings(),
        }

    def covers(self, finding: Finding) -> bool:
        """Whether the channel is for this finding's team, rule and cluster."""
        filters = ((self.teams, finding.team), (self.rules, finding.detector), (self.clusters, finding.cluster))
        return all(wanted is None or found in wanted for wanted, found in filters)

    def receives(self, finding: Finding) -> bool:
        """Whether the channel covers this finding at its severity."""
        in_range = rank(self.severity_min) <= rank(finding.severity) <= rank(self.severity_max)
        return in_range and self.covers(finding)


def rank(severity: str) -> int:
    """Position in SEVERITIES; an unknown word ranks lowest."""
    return SEVERITIES.index(severity) if severity in SEVERITIES else 0


def url_hint(url: str) -> str:
    """`hooks.slack.com/…/abcd`: the host, and the last characters of a long secret."""
    host, _, rest = url.partition("://")[2].partition("/")
    host = host.partition("?")[0]
    return f"{host}/…/{rest[-HINT_LAST:]}" if len(rest) >= HINT_SECRET_MIN else f"{host}/…"
