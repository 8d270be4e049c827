"""Reads channels from gpuwatch.toml and API requests. Errors name every wrong field at once, and never the secret URL."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

from gpuwatch.alerts.channel import EVENTS, FILTERS, MAX_CHANNELS, REPORT, Channel, rank
from gpuwatch.alerts.channel_options import MORE, More
from gpuwatch.alerts.delivery.destination_guard import Guard
from gpuwatch.alerts.delivery.email_server import FIELDS as MAIL_FIELDS
from gpuwatch.alerts.delivery.email_server import Mail, mail_of
from gpuwatch.alerts.kind import DEFAULT_KIND, ChannelKind, ContinuousKind, channel_kinds
from gpuwatch.alerts.option_parse import more_of
from gpuwatch.alerts.timing import SEVERITIES, Timing, timing_of
from gpuwatch.core import option_names
from gpuwatch.core.errors import UsageError
from gpuwatch.core.names import hidden_character

ALL_EVENTS = (*EVENTS, REPORT)
GROUPS = ("team", "user", "rule", "severity")
"""What the findings of one message may have in common."""
LEFT_TO_RECEIVER = ("events", "group_by", *Timing.__dataclass_fields__)
"""Settings that do not apply to a continuous channel: its receiver groups, repeats and silences."""
MAX_NAMES = 1000
"""Teams, rules or clusters of a channel."""
MAX_TEXT = 200
MAX_SECRET_BYTES = 10_000
SECRETS = {
    "url": "the webhook's address",
    "password": "the mail server's password",
    "signing_secret": "the signing secret",
    "authorization": "the value of the Authorization header",
}
"""Fields that may be read from a file named in `<field>_file`."""

_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9_.-]{0,63}")
_NESTED = {"mail", "timing", "more"}
"""Fields of Channel that hold several settings each; these settings have names of their own."""
_FIELDS = set(Channel.__dataclass_fields__) - _NESTED | set(Timing.__dataclass_fields__) | set(MORE)
_IGNORED = {"url_hint", "status", "origin", "password_set", "signing_secret_set", "authorization_set"}
"""Fields that GET adds: a channel may be sent back as it was received."""
_TABLE = "[[channel]]"
option_names.note(_TABLE, {*_FIELDS - _IGNORED, *MAIL_FIELDS, *SECRETS, *(f"{name}_file" for name in SECRETS)})


class _Fields:
    """One channel as written. A wrong field is added to `problems`, and its default is used instead."""

    def __init__(self, item: Mapping[str, Any], problems: list[str]) -> None:
        self.item = {key: value for key, value in item.items() if key != "url" or value is not None}
        self.problems = problems

    def take(self, key: str, default: Any, test: Callable[[Any], bool], words: str) -> Any:
        """The value of a field; `words` complete "KEY must be ..."."""
        value = self.item.get(key, default)
        if test(value):
            return value
        self.problems.append(f"{key} must be {words}")
        return default

    def choice(self, key: str, default: str, options: Sequence[str]) -> str:
        """A field that is one of `options`."""
        words = f"one of {', '.join(options)}"
        return str(self.take(key, default, lambda value: isinstance(value, str) and value in options, words))

    def flag(self, key: str, default: bool) -> bool:
        """A field that is true or false."""
        return bool(self.take(key, default, lambda value: isinstance(value, bool), "true or false"))


def parse(item: Mapping[str, Any], known: Channel | None, guard: Guard, origin: str = "api") -> Channel:
    """A channel from a JSON object. `known` is the channel of that name so far; it gives the URL if `item` has none.

    Raises UsageError naming the channel and every wrong field; never the URL.
    """
    problems: list[str] = []
    channel = _read(item, known, guard, origin, problems)
    if problems:
        raise UsageError(f"{_label(channel)}: {'; '.join(problems)}")
    return channel


def from_config(tables: Sequence[Mapping[str, Any]], problems: list[str], guard: Guard | None = None) -> list[Channel]:
    """The channels of the [[channel]] tables of gpuwatch.toml. Wrong tables are added to `problems` and left out.

    A secret is given in its field, or in the file that `<field>_file` names.
    """
    found: dict[str, Channel] = {}
    for place, table in enumerate(tables[:MAX_CHANNELS], 1):
        item, wrong = _with_secrets(table)
        channel = _read(item, None, guard or Guard(), "file", wrong, url_wrong=bool(wrong))
        if wrong:
            problems.append(f"[[channel]] {place}: {_label(channel)}: {'; '.join(wrong)}")
            continue
        if channel.name in found:
            problems.append(f"[[channel]] {place}: the name {channel.name} is used twice; rename one")
        found.setdefault(channel.name, channel)
    if len(tables) > MAX_CHANNELS:
        problems.append(f"[[channel]]: {len(tables)} tables; at most {MAX_CHANNELS} channels are kept")
    return list(found.values())


def _label(channel: Channel) -> str:
    return f"channel {channel.name}" if channel.name else "channel"


def _read(
    item: Mapping[str, Any],
    known: Channel | None,
    guard: Guard,
    origin: str,
    problems: list[str],
    url_wrong: bool = False,
) -> Channel:
    """A channel; wrong fields are added to `problems`. With `url_wrong` a missing URL was reported already."""
    fields = _Fields(item, problems)
    name = _name(fields)
    kind = _kind(fields, known)
    if isinstance(kind, ContinuousKind):
        problems += _not_applicable(fields.item, kind)
    events = fields.take("events", list(EVENTS), _is_events, f"a list of {', '.join(ALL_EVENTS)}, without repeats")
    groups = fields.take("group_by", [], _is_groups, f"a list of {', '.join(GROUPS)}, without repeats")
    mail = _mail(fields, known, guard) if kind.mails else None
    url = _url(fields, known, kind, url_wrong)
    moves = known is not None and url != known.url
    channel = Channel(
        name=name,
        kind=kind.name,
        url=url or "",
        severity_min=fields.choice("severity_min", "medium", SEVERITIES),
        severity_max=fields.choice("severity_max", "critical", SEVERITIES),
        **{name: _filter(fields, name) for name in FILTERS},
        fallback=fields.flag("fallback", False),
        events=tuple(filter(events.__contains__, ALL_EVENTS)),
        group_by=tuple(filter(groups.__contains__, GROUPS)),
        enabled=fields.flag("enabled", True),
        origin=origin,
        mail=mail,
        timing=timing_of(fields.take, fields.choice),
        more=more_of(fields.item, kind, known.more if known else More(), moves, fields.take, problems),
    )
    if rank(channel.severity_max) < rank(channel.severity_min):
        problems.append("severity_max must not be below severity_min")
    if url is not None and "url" in fields.item and mail is None:
        problems += _refused(channel.url, guard)
    problems += _unknown(fields.item, origin == "file")
    return channel


def _filter(fields: _Fields, name: str) -> tuple[str, ...] | None:
    """The names that a channel is limited to; None for all."""
    names = fields.take(
        name, None, _is_names, f"a list of at most {MAX_NAMES} names without hidden characters, or absent for all"
    )
    return None if names is None else tuple(names)


def _name(fields: _Fields) -> str:
    words = "1 to 64 letters, digits, '.', '_' or '-', starting with a letter or digit"
    return fields.take("name", None, lambda v: isinstance(v, str) and _NAME.fullmatch(v) is not None, words) or ""


def _kind(fields: _Fields, known: Channel | None) -> ChannelKind:
    kinds = channel_kinds()
    default = known.kind if known and known.kind in kinds else DEFAULT_KIND
    return kinds[fields.choice("kind", default, tuple(kinds))]


def _not_applicable(item: Mapping[str, Any], kind: ContinuousKind) -> list[str]:
    """Settings that a continuous channel does not have. Defaults are accepted: GET shows them, and they may be sent back."""
    defaults = {
        "events": EVENTS,
        "group_by": (),
        **{name: getattr(Timing, name) for name in Timing.__dataclass_fields__},
    }
    given = {key: tuple(value) if isinstance(value, list) else value for key, value in item.items()}
    return [
        f"{key} does not apply to kind {kind.name}: {kind.receiver} handles it"
        for key in LEFT_TO_RECEIVER
        if key in given and given[key] != defaults[key]
    ]


def _mail(fields: _Fields, known: Channel | None, guard: Guard) -> Mail:
    mail = mail_of(fields.item, known.mail if known else None, guard, fields.problems)
    fields.item = {key: value for key, value in fields.item.items() if key not in MAIL_FIELDS}
    return mail


def _url(fields: _Fields, known: Channel | None, kind: ChannelKind, url_wrong: bool) -> str | None:
    if kind.mails:
        words = "absent: an e-mail channel has host, port, from and to"
        return str(fields.take("url", "", lambda value: value == "", words))
    default = (known.url or None) if known else None
    found: str | None = fields.take(
        "url", default, lambda value: isinstance(value, str) or url_wrong, "the webhook's https:// address"
    )
    return found


def _refused(url: str, guard: Guard) -> list[str]:
    try:
        guard.check_url(url)
    except UsageError as error:
        return [str(error)]
    return []


def _unknown(item: Mapping[str, Any], in_file: bool) -> list[str]:
    """Fields that a channel does not have. In gpuwatch.toml, a setting of another table names that table."""
    known = f"known: {', '.join(sorted(_FIELDS - _IGNORED))}"
    return [
        f"{key[:MAX_TEXT]} is not known; {(option_names.belongs(key, _TABLE) if in_file else None) or known}"
        for key in item
        if key not in _FIELDS | _IGNORED
    ]


def _with_secrets(table: Mapping[str, Any]) -> tuple[dict[str, Any], list[str]]:
    """A table with the secrets from the files that it names, and what is wrong with these files."""
    item, wrong = dict(table), []
    for secret, words in SECRETS.items():
        if f"{secret}_file" in item:
            try:
                item[secret] = _secret(item.pop(f"{secret}_file"), f"{secret}_file", words)
            except UsageError as error:
                wrong.append(str(error))
    return item, wrong


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
        and all(isinstance(name, str) and 0 < len(name) <= MAX_TEXT and not hidden_character(name) for name in value)
    )


def _is_events(value: object) -> bool:
    return isinstance(value, list | tuple) and len(value) > 0 and _are_of(value, ALL_EVENTS)


def _is_groups(value: object) -> bool:
    return isinstance(value, list | tuple) and _are_of(value, GROUPS)


def _are_of(value: Sequence[object], known: Sequence[str]) -> bool:
    words = [word for word in value if isinstance(word, str) and word in known]
    return len(words) == len(value) == len(set(words))
