"""Sessions of browsers: a random id stands for a token until it expires, is ended, or the token is revoked.

Only a digest of each id is stored, so a copy of the state opens nothing.
"""

from __future__ import annotations

import secrets
from hashlib import sha256

import sqlalchemy as sa

from gpuwatch.core.clock import DAY_US
from gpuwatch.state.core import State
from gpuwatch.state.tokens import Token, Tokens

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
)


class Sessions:
    """The sessions of a state. Every method is one or two short transactions and raises StoreError as State does."""

    def __init__(self, state: State) -> None:
        self._state, self._tokens = state, Tokens(state)

    def start(self, token: Token, now_us: int) -> tuple[str, int]:
        """Starts a session for a token; returns its id, which is not stored, and when it expires."""
        text = secrets.token_urlsafe(ID_BYTES)
        expires_us = min(now_us + DURATION_US, token.expires_us or now_us + DURATION_US)
        row = {"digest": _digest(text), "token_id": token.id, "created_us": now_us, "expires_us": expires_us}
        own = _session.c.token_id == token.id
        with self._state.transaction(write=True) as connection:
            connection.execute(sa.delete(_session).where(_session.c.expires_us <= now_us))
            newest = (
                sa.select(_session.c.digest).where(own).order_by(_session.c.created_us.desc()).limit(MAX_PER_TOKEN - 1)
            )
            kept = connection.scalars(newest).all()
            connection.execute(sa.delete(_session).where(own, _session.c.digest.not_in(kept)))
            connection.execute(sa.insert(_session).values(**row))
        return text, expires_us

    def resolve(self, text: str, now_us: int) -> Token | None:
        """The valid token of a session; None for every other text."""
        if len(text) > MAX_ID_TEXT:
            return None
        query = sa.select(_session.c.token_id).where(_session.c.digest == _digest(text), _session.c.expires_us > now_us)
        with self._state.transaction(write=False) as connection:
            token_id = connection.scalar(query)
        return None if token_id is None else self._tokens.valid(token_id, now_us)

    def end(self, text: str) -> None:
        """Ends a session; nothing happens for an unknown one."""
        with self._state.transaction(write=True) as connection:
            connection.execute(sa.delete(_session).where(_session.c.digest == _digest(text)))


def _digest(text: str) -> str:
    return sha256(text.encode("utf-8", "replace")).hexdigest()
