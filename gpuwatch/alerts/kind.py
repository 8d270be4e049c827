"""Kinds of notification channels: a class and a file in alerts/channels/.

A kind writes messages; the service queues, retries and sends them. `@channel_kind` registers its class.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, ClassVar, Literal, TypeVar

from gpuwatch.core.errors import UsageError
from gpuwatch.core.registry import discover

if TYPE_CHECKING:
    from gpuwatch.alerts.channel import Channel
    from gpuwatch.alerts.firing.repository import FiringAlert
    from gpuwatch.alerts.record import Alert
    from gpuwatch.report.summary import Summary

DEFAULT_KIND = "slack"


@dataclass(frozen=True)
class Context:
    """What a message needs besides its subject."""

    channel: Channel
    base_url: str | None
    """Address of the service, for links; None: no links."""
    key: str
    """Identifies the message: the same when it is sent again."""
    now_us: int
    to: tuple[str, ...] = ()
    """Recipients of an e-mail."""
    files: Mapping[str, bytes] = field(default_factory=dict)
    """Files of a report to attach to an e-mail, by suffix."""


class ChannelKind(ABC):
    """What all kinds have. A message is JSON that is posted to the channel's `url`, or an EmailMessage."""

    name: ClassVar[str]
    signs: ClassVar[bool] = False
    """Signs its messages with `signing_secret`."""
    logs_in: ClassVar[bool] = False
    """Sends `authorization` as a header."""
    labels: ClassVar[bool] = False
    """Adds the channel's `labels` to its alerts."""
    mails: ClassVar[bool] = False
    """Sends e-mail through the channel's mail server instead of posting to `url`."""

    @abstractmethod
    def test(self, context: Context) -> Any:
        """The message of the test button."""

    def endpoint(self, url: str) -> str:
        """Where to post, given the channel's `url`."""
        return url


class MessageKind(ChannelKind):
    """Sends one message for each event, digest and report."""

    findings_max: ClassVar[int] = 1000
    """Findings in one digest; more are sent in another one."""

    @abstractmethod
    def single(self, alert: Alert, context: Context) -> Any:
        """The message about one finding."""

    @abstractmethod
    def digest(self, alerts: Sequence[Alert], by: Sequence[str], context: Context) -> Any:
        """The message about several findings; `by` names what they have in common: team, user, rule, severity."""

    @abstractmethod
    def report(self, summary: Summary, context: Context) -> Any:
        """The message that announces a weekly report."""


class ContinuousKind(ChannelKind):
    """Pushes every firing alert again and again; the receiver groups, repeats and silences them."""

    receiver: ClassVar[str]
    """The product that receives the alerts, as people call it."""

    @abstractmethod
    def push(self, alerts: Sequence[FiringAlert], lasts_us: int, context: Context) -> Any:
        """The body of one push. Alerts without an end fire until `lasts_us` unless they are pushed again."""


K = TypeVar("K", bound=type[ChannelKind])
_kinds: dict[str, ChannelKind] = {}


def channel_kind(kind: K) -> K:
    """Registers a class by its `name`."""
    if kind.name in _kinds:
        raise ValueError(f"channel kind {kind.name!r} is registered twice: {type(_kinds[kind.name])} and {kind}")
    _kinds[kind.name] = kind()
    return kind


def channel_kinds() -> dict[str, ChannelKind]:
    """All kinds by name."""
    discover("gpuwatch.alerts.channels")
    return dict(sorted(_kinds.items()))


def find_kind(name: str) -> ChannelKind:
    """The kind of this name. Raises UsageError with the known kinds."""
    known = channel_kinds()
    if name not in known:
        raise UsageError(f"channel kind {name!r} is unknown; known kinds: {', '.join(known)}")
    return known[name]


def is_continuous(name: str) -> bool:
    """Whether channels of this kind push what fires instead of sending messages."""
    return isinstance(channel_kinds().get(name), ContinuousKind)


def kinds_with(option: Literal["signs", "logs_in", "labels"]) -> str:
    """The kinds that have an option, for error messages: "alertmanager or webhook"."""
    return " or ".join(name for name, kind in channel_kinds().items() if getattr(kind, option))
