"""Sessions of browsers: a random id stands for a token, or for a person whom an OpenID Connect provider identified.

It ends when it expires, is ended, or the token is revoked; sessions of people also when their provider is no longer configured.

Only a digest of each id is stored, so a copy of the state opens nothing.
"""

from __future__ import annotations

import json
import secrets
from dataclasses import dataclass
from hashlib import sha256

import sqlalchemy as sa

from gpuwatch.core.clock import DAY_US
from gpuwatch.state.core import State, record
from gpuwatch.state.tokens import Token, Tokens

PERSON = "sso-"
"""Start of the id under which a person's sessions and limits are kept, in place of a token's."""
DURATION_US = 7 * DAY_US
ID_BYTES = 32
MAX_ID_TEXT = 100
"""Longer text is no session id and is not looked up."""
MAX_PER_TOKEN = 50
"""Sessions of one token. One more ends the oldest."""

_session = sa.Table(
    "session",
    sa.MetaData(),
    sa.Column("digest", sa.String(64), primary_key=True),
    sa.Column("token_id", sa.String(16)),
    sa.Column("created_us", sa.BigInteger),
    sa.Column("expires_us", sa.BigInteger),
    sa.Column("granted", sa.Text),
)


@dataclass(frozen=True)
class Person:
    """Somebody whom a provider identified; `teams` None sees every team's rows."""

    issuer: str
    subject: str
    name: str
    scope: str
    teams: tuple[str, ...] | None

    @property
    def id(self) -> str:
        """Constant for a person: a digest of the provider and of the person's id there."""
        return PERSON + _digest(json.dumps([self.issuer, self.subject]))[:12]


class Sessions:
    """The sessions of a state. Every method is one or two short transactions and raises StoreError as State does."""

    def __init__(self, state: State) -> None:
        self._state, self._tokens = state, Tokens(state)

    def start(self, token: Token, now_us: int) -> tuple[str, int]:
        """Starts a session for a token; returns its id, which is not stored, and when it expires."""
        return self._start(token.id, min(now_us + DURATION_US, token.expires_us or now_us + DURATION_US), now_us, None)

    def start_for(self, person: Person, duration_us: int, now_us: int) -> tuple[str, int]:
        """Starts a session for a person, with the rights of this moment, and notes it in the audit log."""
        granted = json.dumps(person.__dict__)
        with self._state.transaction(write=True) as connection:
            record(connection, now_us, person.name, "signed in", None, granted)
        return self._start(person.id, now_us + duration_us, now_us, granted)

    def _start(self, owner: str, expires_us: int, now_us: int, granted: str | None) -> tuple[str, int]:
        text = secrets.token_urlsafe(ID_BYTES)
        row = {
            "digest": _digest(text),
            "token_id": owner,
            "created_us": now_us,
            "expires_us": expires_us,
            "granted": granted,
        }
        own = _session.c.token_id == owner
        with self._state.transaction(write=True) as connection:
            connection.execute(sa.delete(_session).where(_session.c.expires_us <= now_us))
            newest = (
                sa.select(_session.c.digest).where(own).order_by(_session.c.created_us.desc()).limit(MAX_PER_TOKEN - 1)
            )
            kept = connection.scalars(newest).all()
            connection.execute(sa.delete(_session).where(own, _session.c.digest.not_in(kept)))
            connection.execute(sa.insert(_session).values(**row))
        return text, expires_us

    def resolve(self, text: str, now_us: int, issuer: str | None = None) -> Token | None:
        """The valid token of a session, for a person one with the person's rights; None for every other text.

        `issuer`: the provider whose people have access.
        """
        if len(text) > MAX_ID_TEXT:
            return None
        query = sa.select(_session).where(_session.c.digest == _digest(text), _session.c.expires_us > now_us)
        with self._state.transaction(write=False) as connection:
            row = connection.execute(query).mappings().first()
        if row is None or row["granted"] is None:
            return None if row is None else self._tokens.valid(row["token_id"], now_us)
        given = json.loads(row["granted"])
        if given["issuer"] != issuer:
            return None
        teams = None if given["teams"] is None else tuple(given["teams"])
        created_us, expires_us = row["created_us"], row["expires_us"]
        return Token(row["token_id"], given["name"], given["scope"], teams, created_us, "sso", expires_us, None)

    def end(self, text: str) -> None:
        """Ends a session; nothing happens for an unknown one."""
        with self._state.transaction(write=True) as connection:
            connection.execute(sa.delete(_session).where(_session.c.digest == _digest(text)))


def _digest(text: str) -> str:
    return sha256(text.encode("utf-8", "replace")).hexdigest()
