"""A channel: where alerts go, which ones, and how they are written in gpuwatch.toml and in the API."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from gpuwatch.alerts.email_server import FIELDS as MAIL_FIELDS
from gpuwatch.alerts.email_server import Mail, mail_of
from gpuwatch.alerts.guard import Guard
from gpuwatch.errors import UsageError

KINDS = ("slack", "webhook", "email")
EVENTS = ("opened", "worsened", "resolved")
"""What happens to findings; REPORT is beside them, and only told where a channel names it."""
REPORT = "report"
EVENTS_KNOWN = (*EVENTS, REPORT)
SEVERITIES = ("info", "low", "medium", "high", "critical")
"""From harmless to worst: contract.md section 4."""
DIGESTS = ("off", "hourly", "daily")

MAX_CHANNELS = 100
MAX_TEAMS = 1000
MAX_TEXT = 200
MAX_SECRET_BYTES = 10_000

HINT_LAST = 4
"""Characters of a webhook URL that may be shown, so that two of them can be told apart."""
HINT_SECRET_MIN = 16
"""A shorter path is not shown in part: four characters of it would be too much."""

_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9_.-]{0,63}")
_IGNORED = {"url_hint", "status", "origin", "password_set"}
"""What GET adds: an item may be sent back as it came."""


@dataclass(frozen=True)
class Channel:
    """One destination. `url` is a secret: it is in no text that this class gives."""

    name: str
    kind: str
    url: str = field(repr=False)
    severity_min: str = "medium"
    teams: tuple[str, ...] | None = None
    """None: all teams."""
    events: tuple[str, ...] = EVENTS
    digest: str = "off"
    enabled: bool = True
    origin: str = "api"
    """`file`: it stands in gpuwatch.toml and is changed there only."""
    mail: Mail | None = None
    """Of an e-mail channel: its server, sender and recipients. Its `url` is empty."""

    @property
    def secret(self) -> str:
        """What nobody is shown: the address of a webhook, the password of a mail server."""
        return self.url if self.mail is None else self.mail.password or ""

    def public(self) -> dict[str, Any]:
        """The channel as the API shows it: no secret."""
        where = {"url_hint": url_hint(self.url)} if self.mail is None else self.mail.public()
        return {"name": self.name, "kind": self.kind, **where, **self.settings()}

    def settings(self) -> dict[str, Any]:
        """What is neither name, kind nor secret."""
        teams = None if self.teams is None else list(self.teams)
        return {
            "severity_min": self.severity_min,
            "teams": teams,
            "events": list(self.events),
            "digest": self.digest,
            "enabled": self.enabled,
            "origin": self.origin,
        }

    def hears_of(self, severity: str, team: str) -> bool:
        """Whether a finding of that severity and team is this channel's business."""
        return rank(severity) >= rank(self.severity_min) and (self.teams is None or team in self.teams)


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
    teams = take("teams", None, _is_teams, f"a list of at most {MAX_TEAMS} team names, or absent for all teams")
    events = take("events", list(EVENTS), _is_events, f"a list of {', '.join(EVENTS_KNOWN)}, without repeats")
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
    channel = Channel(
        name=name,
        kind=kind,
        url=url or "",
        severity_min=choice("severity_min", "medium", SEVERITIES),
        teams=None if teams is None else tuple(teams),
        events=tuple(event for event in EVENTS_KNOWN if event in events),
        digest=choice("digest", "off", DIGESTS),
        enabled=take("enabled", True, lambda v: isinstance(v, bool), "true or false"),
        origin=origin,
        mail=mail,
    )
    if url is not None and "url" in item and mail is None:
        try:
            guard.check_url(channel.url)
        except UsageError as error:
            problems.append(str(error))
    fields = (set(Channel.__dataclass_fields__) - {"mail"}) | _IGNORED
    problems += [
        f"{key[:MAX_TEXT]} is not known; known: {', '.join(sorted(fields - _IGNORED))}"
        for key in item
        if key not in fields
    ]
    return channel


def from_config(tables: Sequence[Mapping[str, Any]], problems: list[str], guard: Guard | None = None) -> list[Channel]:
    """Channels of the [[channel]] tables of gpuwatch.toml; every wrong table is added to `problems` and left out.

    The URL stands in `url`, or in the file that `url_file` names: a mounted secret.
    """
    found: dict[str, Channel] = {}
    for place, table in enumerate(tables[:MAX_CHANNELS], 1):
        item = dict(table)
        wrong: list[str] = []
        for secret, words in (("url", "the webhook's address"), ("password", "the mail server's password")):
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


def _is_teams(value: object) -> bool:
    if value is None:
        return True
    return (
        isinstance(value, list | tuple)
        and 0 < len(value) <= MAX_TEAMS
        and all(isinstance(team, str) and 0 < len(team) <= MAX_TEXT for team in value)
    )


def _is_events(value: object) -> bool:
    return (
        isinstance(value, list | tuple)
        and len(value) > 0
        and all(isinstance(event, str) for event in value)
        and len(set(value)) == len(value)
        and set(value) <= set(EVENTS_KNOWN)
    )
