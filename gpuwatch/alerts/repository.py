"""Alert channels: where alerts go. Their addresses are secrets: no answer, log or audit row has one."""

from __future__ import annotations

import json
from collections.abc import Collection, Mapping, Sequence
from dataclasses import replace
from hashlib import sha256
from typing import Any

import sqlalchemy as sa
from sqlalchemy.engine import Connection

from gpuwatch.alerts.channel import MAX_CHANNELS, Channel
from gpuwatch.alerts.channel_options import More
from gpuwatch.alerts.channel_parse import parse
from gpuwatch.alerts.delivery.destination_guard import Guard
from gpuwatch.alerts.delivery.email_server import Mail
from gpuwatch.alerts.firing import repository as firing
from gpuwatch.alerts.kind import is_continuous
from gpuwatch.alerts.outbox import repository as outbox_repository
from gpuwatch.alerts.outbox import tables as outbox_tables
from gpuwatch.alerts.timing import Timing
from gpuwatch.core.errors import ChangedMeanwhile, UsageError
from gpuwatch.state.core import State, record

VERSION_CHARACTERS = 16
_tables = sa.MetaData()
_channel = sa.Table(
    "channel",
    _tables,
    sa.Column("name", sa.String, primary_key=True),
    sa.Column("kind", sa.String),
    sa.Column("secret", sa.Text),
    sa.Column("config", sa.Text),
    sa.Column("sealed", sa.Text),  # further secrets, as JSON
    sa.Column("created_us", sa.BigInteger),
    sa.Column("updated_us", sa.BigInteger),
)


class Channels:
    """The channels. Each method is one transaction. `guard` says which addresses are accepted."""

    def __init__(self, state: State, guard: Guard | None = None) -> None:
        self._state = state
        self._guard = guard or Guard()

    def list(self) -> tuple[Channel, ...]:
        """All channels by name, with their secrets: for senders. `Channel.public` is what may be shown."""
        with self._state.transaction(write=False) as connection:
            return tuple(_read(connection).values())

    def get(self, name: str) -> Channel:
        """One channel with its secret. Raises UsageError for an unknown name, with the known ones."""
        known = {channel.name: channel for channel in self.list()}
        if name not in known:
            raise UsageError(f"channel {name}: unknown; known: {', '.join(known) or 'none'}")
        return known[name]

    def put(self, item: Mapping[str, Any], actor: str, at_us: int) -> bool:
        """Adds or changes one channel (fields: parse); without `url` it keeps its address. True if that changed it."""
        with self._state.transaction(write=True) as connection:
            known = _read(connection)
            channel = self._parsed(item, known)
            if len(known.keys() | {channel.name}) > MAX_CHANNELS:
                raise UsageError(f"channels: at most {MAX_CHANNELS}; remove one first")
            return _write(connection, known.get(channel.name), channel, actor, at_us)

    def version(self) -> str:
        """A text that changes with every change of a channel."""
        with self._state.transaction(write=False) as connection:
            return _version(connection)

    def replace(
        self, items: Sequence[Mapping[str, Any]], actor: str, at_us: int, expected: Collection[str] | None = None
    ) -> bool:
        """Makes `items` the channels; those of gpuwatch.toml stay, named or not. True if that changed them.

        Raises UsageError with what is wrong in every item, ChangedMeanwhile if `version` is not among those expected
        (None: any is); then nothing is changed.
        """
        if len(items) > MAX_CHANNELS:
            raise UsageError(f"channels: {len(items)} given, at most {MAX_CHANNELS} are kept")
        with self._state.transaction(write=True) as connection:
            if expected is not None and _version(connection) not in expected:
                raise ChangedMeanwhile("channels: somebody changed them since you read them")
            known = _read(connection)
            problems: list[str] = []
            wanted: dict[str, Channel] = {n: c for n, c in known.items() if c.origin == "file"}
            named: set[str] = set()
            for item in items:
                try:
                    channel = self._parsed(item, known)
                except UsageError as error:
                    problems.append(str(error))
                    continue
                if channel.name in named:
                    problems.append(f"channel {channel.name} is given twice; rename one")
                named.add(channel.name)
                wanted[channel.name] = channel
            if problems:
                raise UsageError("; ".join(problems))
            return _exchange(connection, known, wanted, actor, at_us)

    def adopt(self, channels: Sequence[Channel], at_us: int) -> bool:
        """Makes `channels` (from_config) those of gpuwatch.toml; channels made elsewhere stay. True if that changed any.

        A name that both have belongs to the file from then on.
        """
        with self._state.transaction(write=True) as connection:
            known = _read(connection)
            wanted = {n: c for n, c in known.items() if c.origin != "file"}
            wanted |= {channel.name: replace(channel, origin="file") for channel in channels}
            return _exchange(connection, known, wanted, "gpuwatch.toml", at_us)

    def _parsed(self, item: Mapping[str, Any], known: Mapping[str, Channel]) -> Channel:
        """A channel that people set; one of the file may be named if nothing of it changes."""
        before = known.get(str(item.get("name")))
        if before is None or before.origin != "file":
            return parse(item, before, self._guard)
        if parse(item, before, self._guard, "file") != before:
            raise UsageError(f"channel {before.name}: it is set in gpuwatch.toml; change it there")
        return before


def _version(connection: Connection) -> str:
    found = connection.execute(
        sa.select(_channel.c.name, _channel.c.created_us, _channel.c.updated_us).order_by("name")
    )
    return sha256(json.dumps([list(row) for row in found]).encode()).hexdigest()[:VERSION_CHARACTERS]


def _exchange(
    connection: Connection, known: Mapping[str, Channel], wanted: Mapping[str, Channel], actor: str, at_us: int
) -> bool:
    changed = [_write(connection, known.get(name), channel, actor, at_us) for name, channel in wanted.items()]
    gone = [channel for name, channel in known.items() if name not in wanted]
    for channel in gone:
        connection.execute(sa.delete(_channel).where(_channel.c.name == channel.name))
        outbox_repository.drop(connection, channel.name)
        firing.drop(connection, channel.name)
        record(connection, at_us, actor, f"channel {channel.name} removed", _shown(channel), None)
    return any(changed) or bool(gone)


def _write(connection: Connection, before: Channel | None, channel: Channel, actor: str, at_us: int) -> bool:
    """Stores a channel and its audit row; a new address gets what the old one did not."""
    if channel == before:
        return False
    values = {
        "kind": channel.kind,
        "secret": channel.secret,
        "config": json.dumps(channel.settings() | ({} if channel.mail is None else {"mail": channel.mail.kept()})),
        "sealed": json.dumps(channel.more.sealed()),
        "updated_us": at_us,
    }
    if before is None:
        connection.execute(sa.insert(_channel).values(name=channel.name, created_us=at_us, **values))
        outbox_repository.revive(connection, channel.name, at_us)  # one that was removed lately, and is back
    else:
        connection.execute(sa.update(_channel).where(_channel.c.name == channel.name).values(**values))
        if is_continuous(before.kind) != is_continuous(channel.kind):
            outbox_repository.drop(connection, channel.name)
            firing.drop(connection, channel.name)
        elif _moved(before, channel):
            outbox_repository.revive(connection, channel.name, at_us)
            firing.push_again(connection, channel.name)
        if before.timing != channel.timing:
            outbox_tables.hasten(connection, channel.name, at_us)
    what = f"channel {channel.name} {'made' if before is None else 'changed'}"
    after = _shown(channel, before)
    record(connection, at_us, actor, what, None if before is None else _shown(before), after)
    return True


def _read(connection: Connection) -> dict[str, Channel]:
    found = connection.execute(sa.select(_channel).order_by(_channel.c.name))
    return {row.name: _channel_of(row) for row in found}


def _channel_of(row: Any) -> Channel:
    config = json.loads(row.config)
    mail = config.get("mail")
    own: dict[str, Any] = {name: config[name] for name in _OWN if name in config}
    lists = {name: tuple(value) for name, value in own.items() if isinstance(value, list)}
    return Channel(
        name=row.name,
        kind=row.kind,
        url=row.secret if mail is None else "",
        mail=None if mail is None else Mail.of(mail, row.secret),
        timing=Timing.of(config),
        more=More.of(config, json.loads(row.sealed or "{}")),
        **own | lists,
    )


_OWN = set(Channel.__dataclass_fields__) - {"name", "kind", "url", "mail", "timing", "more"}


def _moved(before: Channel, channel: Channel) -> bool:
    """Whether messages go elsewhere than before: what did not arrive there may arrive now."""
    logins = (before.more.authorization, channel.more.authorization)
    return before.url != channel.url or before.mail != channel.mail or logins[0] != logins[1]


def _shown(channel: Channel, before: Channel | None = None) -> str:
    """A channel as the audit log has it, and which of its secrets are not those of `before`."""
    changed = {}
    if before is not None:
        changed["url_changed"] = channel.secret != before.secret
        changed["secrets_changed"] = channel.more.sealed() != before.more.sealed()
    return json.dumps(channel.public() | changed)
