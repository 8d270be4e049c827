"""A channel: where alerts go, which ones, and how they are written in gpuwatch.toml and in the API."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from gpuwatch.alerts.channel_options import MORE, More, more_of
from gpuwatch.alerts.channels.destination_guard import Guard
from gpuwatch.alerts.channels.email_server import FIELDS as MAIL_FIELDS
from gpuwatch.alerts.channels.email_server import Mail, mail_of
from gpuwatch.alerts.timing import SEVERITIES, Timing, timing_of
from gpuwatch.core.errors import UsageError

if TYPE_CHECKING:
    from gpuwatch.findings.read import Finding

ALWAYS, NOTHING_MORE = Timing(), More()
ALERTMANAGER = "alertmanager"
KINDS = ("slack", "webhook", ALERTMANAGER, "email")
EVENTS = ("opened", "worsened", "resolved")
"""What happens to findings; REPORT is beside them, and only told where a channel names it."""
REPORT = "report"
EVENTS_KNOWN = (*EVENTS, REPORT)
GROUPS = ("team", "user", "rule", "severity")
"""What the findings of one message may have in common."""
LEFT_TO_ALERTMANAGER = ("events", "group_by", *(name for name in Timing.__dataclass_fields__))
"""What Alertmanager does itself: repeats, groups, silences and routes."""

MAX_CHANNELS = 100
MAX_NAMES = 1000
"""Teams, rules or clusters of a channel."""
MAX_TEXT = 200
MAX_SECRET_BYTES = 10_000

SECRETS = {
    "url": "the webhook's address",
    "password": "the mail server's password",
    "signing_secret": "the secret that signs",
    "authorization": "the value of the Authorization header",
}
"""Fields that a file may hold, named in `<field>_file`."""

HINT_LAST = 4
"""Characters of a webhook URL that may be shown, so that two of them can be told apart."""
HINT_SECRET_MIN = 16
"""A shorter path is not shown in part: four characters of it would be too much."""

_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9_.-]{0,63}")
_IGNORED = {"url_hint", "status", "origin", "password_set", "signing_secret_set", "authorization_set"}
_NESTED = {"mail", "timing", "more"}
"""Parts of a channel whose fields stand beside its own."""
"""What GET adds: an item may be sent back as it came."""


@dataclass(frozen=True)
class Channel:
    """One destination. `url` is a secret: it is in no text that this class gives."""

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
    """Told only what no other enabled channel is told."""
    events: tuple[str, ...] = EVENTS
    group_by: tuple[str, ...] = ()
    enabled: bool = True
    origin: str = "api"
    """`file`: it stands in gpuwatch.toml and is changed there only."""
    mail: Mail | None = None
    """Of an e-mail channel: its server, sender and recipients. Its `url` is empty."""
    timing: Timing = ALWAYS
    more: More = NOTHING_MORE

    @property
    def secret(self) -> str:
        """What nobody is shown: the address of a webhook, the password of a mail server."""
        return self.url if self.mail is None else self.mail.password or ""

    @property
    def by_group(self) -> tuple[str, ...]:
        """What findings that go out together have in common; who is throttled gets one message a rule and owner."""
        throttled = ("team", "user", "rule") if self.timing.throttle_minutes else ()
        return self.group_by or throttled

    def public(self) -> dict[str, Any]:
        """The channel as the API shows it: no secret."""
        where = {"url_hint": url_hint(self.url)} if self.mail is None else self.mail.public()
        return {"name": self.name, "kind": self.kind, **where, **self.settings(), **self.more.public()}

    def settings(self) -> dict[str, Any]:
        """What is neither name, kind nor secret."""
        return {
            "severity_min": self.severity_min,
            "severity_max": self.severity_max,
            **{name: None if (part := getattr(self, name)) is None else list(part) for name in _FILTERS},
            "fallback": self.fallback,
            "events": list(self.events),
            "group_by": list(self.group_by),
            "enabled": self.enabled,
            "origin": self.origin,
            **self.timing.settings(),
            **self.more.settings(),
        }

    def covers(self, finding: Finding) -> bool:
        """Whether a finding's team, rule and cluster are this channel's business."""
        asked = ((self.teams, finding.team), (self.rules, finding.detector), (self.clusters, finding.cluster))
        return all(wanted is None or found in wanted for wanted, found in asked)

    def hears(self, finding: Finding) -> bool:
        """Whether it is told of such a finding, of this severity."""
        fits = rank(self.severity_min) <= rank(finding.severity) <= rank(self.severity_max)
        return fits and self.covers(finding)


_FILTERS = ("teams", "rules", "clusters")


def rank(severity: str) -> int:
    """Place in SEVERITIES; an unknown word is the most harmless."""
    return SEVERITIES.index(severity) if severity in SEVERITIES else 0


def url_hint(url: str) -> str:
    """`hooks.slack.com/…/abcd`: the host, and the last characters of a long secret."""
    host, _, rest = url.partition("://")[2].partition("/")
    host = host.partition("?")[0]
    return f"{host}/…/{rest[-HINT_LAST:]}" if len(rest) >= HINT_SECRET_MIN else f"{host}/…"


def parse(item: Mapping[str, Any], known: Channel | None, guard: Guard, origin: str = "api") -> Channel:
    """A channel of a JSON object or TOML table. `known` is the channel of that name before: it gives the URL if absent.

    Raises UsageError naming the channel, every wrong field and what it may be; never the URL.
    """
    problems: list[str] = []
    channel = _read(item, known, guard, origin, problems)
    if problems:
        raise UsageError(f"{_called(channel)}: {'; '.join(problems)}")
    return channel


def _called(channel: Channel) -> str:
    return f"channel {channel.name}" if channel.name else "channel"


def _read(
    item: Mapping[str, Any],
    known: Channel | None,
    guard: Guard,
    origin: str,
    problems: list[str],
    url_wrong: bool = False,
) -> Channel:
    """A channel, without what is added to `problems`; with `url_wrong` nothing is said of an address that is not there."""
    name = item.get("name")
    if not isinstance(name, str) or not _NAME.fullmatch(name):
        problems.append("name must be 1 to 64 letters, digits, '.', '_' or '-', starting with one of the first two")
        name = ""

    def take(key: str, default: Any, test: Callable[[Any], bool], words: str) -> Any:
        value = item.get(key, default)
        if not test(value):
            problems.append(f"{key} must be {words}")
            return default
        return value

    def choice(key: str, default: str, options: Sequence[str]) -> str:
        value: str = take(key, default, lambda v: isinstance(v, str) and v in options, f"one of {', '.join(options)}")
        return value

    kind = choice("kind", known.kind if known else "slack", KINDS)
    problems += [
        f"{key} is not for kind alertmanager: Alertmanager does that itself"
        for key in LEFT_TO_ALERTMANAGER
        if kind == "alertmanager" and key in item and not _same(item[key], _default(key))
    ]
    names = f"a list of at most {MAX_NAMES} names, or absent for all"
    filters = {name: take(name, None, _is_names, names) for name in _FILTERS}
    events = take("events", list(EVENTS), _is_events, f"a list of {', '.join(EVENTS_KNOWN)}, without repeats")
    groups = take("group_by", [], _is_groups, f"a list of {', '.join(GROUPS)}, without repeats")
    item = {key: value for key, value in item.items() if key != "url" or value is not None}
    mail = None
    if kind == "email":
        mail = mail_of(item, known.mail if known else None, guard, problems)
        item = {key: value for key, value in item.items() if key not in MAIL_FIELDS}
        url = take("url", "", lambda v: v == "", "absent: an e-mail channel has host, port, from and to")
    else:
        url = take(
            "url",
            (known.url or None) if known else None,
            lambda v: isinstance(v, str) or url_wrong,
            "the webhook's https:// address",
        )
    moves = known is not None and url != known.url
    channel = Channel(
        name=name,
        kind=kind,
        url=url or "",
        severity_min=choice("severity_min", "medium", SEVERITIES),
        severity_max=choice("severity_max", "critical", SEVERITIES),
        **{key: None if value is None else tuple(value) for key, value in filters.items()},
        fallback=take("fallback", False, lambda v: isinstance(v, bool), "true or false"),
        events=tuple(event for event in EVENTS_KNOWN if event in events),
        group_by=tuple(group for group in GROUPS if group in groups),
        enabled=take("enabled", True, lambda v: isinstance(v, bool), "true or false"),
        origin=origin,
        mail=mail,
        timing=timing_of(take, choice),
        more=more_of(item, kind, known.more if known else More(), moves, take, problems),
    )
    if rank(channel.severity_max) < rank(channel.severity_min):
        problems.append("severity_max must not be below severity_min")
    if url is not None and "url" in item and mail is None:
        try:
            guard.check_url(channel.url)
        except UsageError as error:
            problems.append(str(error))
    own = (set(Channel.__dataclass_fields__) - _NESTED) | set(Timing.__dataclass_fields__) | set(MORE)
    problems += [
        f"{key[:MAX_TEXT]} is not known; known: {', '.join(sorted(own - _IGNORED))}"
        for key in item
        if key not in own | _IGNORED
    ]
    return channel


def _default(key: str) -> Any:
    given = {"events": EVENTS, "group_by": ()}
    return given[key] if key in given else getattr(Timing(), key)


def _same(value: object, default: object) -> bool:
    """Whether a field says what it says anyway: GET shows it, and what it shows may be sent back."""
    return (tuple(value) if isinstance(value, list) else value) == default


def from_config(tables: Sequence[Mapping[str, Any]], problems: list[str], guard: Guard | None = None) -> list[Channel]:
    """Channels of the [[channel]] tables of gpuwatch.toml; every wrong table is added to `problems` and left out.

    The URL stands in `url`, or in the file that `url_file` names: a mounted secret.
    """
    found: dict[str, Channel] = {}
    for place, table in enumerate(tables[:MAX_CHANNELS], 1):
        item = dict(table)
        wrong: list[str] = []
        for secret, words in SECRETS.items():
            if f"{secret}_file" in item:
                try:
                    item[secret] = _secret(item.pop(f"{secret}_file"), f"{secret}_file", words)
                except UsageError as error:
                    wrong.append(str(error))
        channel = _read(item, None, guard or Guard(), "file", wrong, url_wrong=bool(wrong))
        if wrong:
            problems.append(f"[[channel]] {place}: {_called(channel)}: {'; '.join(wrong)}")
            continue
        if channel.name in found:
            problems.append(f"[[channel]] {place}: channel {channel.name} stands there twice; rename one")
        found.setdefault(channel.name, channel)
    if len(tables) > MAX_CHANNELS:
        problems.append(f"[[channel]]: {len(tables)} tables; at most {MAX_CHANNELS} channels are kept")
    return list(found.values())


def moved(channel: Channel, origin: str) -> Channel:
    """The same channel, kept elsewhere."""
    return replace(channel, origin=origin)


def _secret(name: object, setting: str, words: str) -> str:
    if not isinstance(name, str) or not name:
        raise UsageError(f"{setting} must be the name of a file that holds {words}")
    try:
        with Path(name).open("rb") as file:
            text = file.read(MAX_SECRET_BYTES).decode("utf-8").strip()
    except (OSError, ValueError) as error:
        reason = error.strerror if isinstance(error, OSError) else "it is not text"
        raise UsageError(f"{setting} {name}: {reason}; check the file and its permissions") from error
    return text


def _is_names(value: object) -> bool:
    if value is None:
        return True
    return (
        isinstance(value, list | tuple)
        and 0 < len(value) <= MAX_NAMES
        and all(isinstance(name, str) and 0 < len(name) <= MAX_TEXT for name in value)
    )


def _is_events(value: object) -> bool:
    return isinstance(value, list | tuple) and len(value) > 0 and _are_of(value, EVENTS_KNOWN)


def _is_groups(value: object) -> bool:
    return isinstance(value, list | tuple) and _are_of(value, GROUPS)


def _are_of(value: Sequence[object], known: Sequence[str]) -> bool:
    words = [word for word in value if isinstance(word, str) and word in known]
    return len(words) == len(value) == len(set(words))
