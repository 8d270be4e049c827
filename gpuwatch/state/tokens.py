"""API tokens: made, resolved and revoked; only a digest of each is kept."""

from __future__ import annotations

import json
import secrets
from collections.abc import Sequence
from dataclasses import dataclass
from hashlib import sha256
from hmac import compare_digest
from typing import Any

import sqlalchemy as sa

from gpuwatch.core.errors import UsageError
from gpuwatch.core.names import hidden_character
from gpuwatch.state.actor import LOOPBACK, TYPED
from gpuwatch.state.core import State, record

PREFIX = "gw"
SCOPES = ("ingest", "read", "admin")
ID_BYTES = 6
SECRET_BYTES = 32
MAX_TOKENS = 10_000
"""Tokens that are kept, revoked ones included."""
MAX_NAME = 100
"""Characters of a token's name and of a team's."""
RESERVED = frozenset({"loopback", "local", "command line", "analyze"})
"""Names under which the audit log knows others."""
MAX_TEAMS = 100
MAX_TOKEN_TEXT = 200
"""Longer text is no token of ours and is not looked up."""

_tables = sa.MetaData()
_token = sa.Table(
    "token",
    _tables,
    sa.Column("id", sa.String(16), primary_key=True),
    sa.Column("name", sa.Text),
    sa.Column("scope", sa.String(16)),
    sa.Column("teams", sa.Text),
    sa.Column("digest", sa.String(64)),
    sa.Column("created_us", sa.BigInteger),
    sa.Column("created_by", sa.Text),
    sa.Column("expires_us", sa.BigInteger),
    sa.Column("revoked_us", sa.BigInteger),
)


@dataclass(frozen=True)
class Token:
    """What is known of a token; `teams` None sees every team's rows. Times in microseconds UTC, None for never."""

    id: str
    name: str
    scope: str
    teams: tuple[str, ...] | None
    created_us: int
    created_by: str
    expires_us: int | None
    revoked_us: int | None

    def valid_at(self, now_us: int) -> bool:
        """Whether it opens anything at an instant."""
        return self.revoked_us is None and (self.expires_us is None or now_us < self.expires_us)


class Tokens:
    """The tokens of a state. Every method is one transaction and raises StoreError where the state cannot be reached."""

    def __init__(self, state: State) -> None:
        self._state = state

    def create(
        self,
        name: str,
        scope: str,
        teams: Sequence[str] | None,
        expires_us: int | None,
        actor: str,
        at_us: int,
    ) -> tuple[Token, str]:
        """Makes a token; returns it with its text, which nobody can read again.

        Raises UsageError: unknown scope, teams on a scope other than read, an expiry that has passed, too many tokens.
        """
        kept = None if teams is None else tuple(dict.fromkeys(teams))
        _check(name, scope, kept, expires_us, at_us)
        identity = secrets.token_hex(ID_BYTES)
        text = f"{PREFIX}_{identity}_{secrets.token_urlsafe(SECRET_BYTES)}"
        token = Token(identity, name, scope, kept, at_us, actor, expires_us, None)
        row = {**token.__dict__, "teams": None if kept is None else json.dumps(kept), "digest": _digest(text)}
        with self._state.transaction(write=True) as connection:
            if (connection.scalar(sa.select(sa.func.count()).select_from(_token)) or 0) >= MAX_TOKENS:
                raise UsageError(f"token: there are {MAX_TOKENS} already, which is the most that are kept")
            connection.execute(sa.insert(_token).values(**row))
            record(connection, at_us, actor, f"token {identity} created", None, json.dumps(_public(token)))
        return token, text

    def resolve(self, text: str, now_us: int) -> Token | None:
        """The valid token of a text; None for every other text, without saying why."""
        parts = text.split("_", 2)
        if len(text) > MAX_TOKEN_TEXT or len(parts) != 3 or parts[0] != PREFIX:
            return None
        with self._state.transaction(write=False) as connection:
            row = connection.execute(sa.select(_token).where(_token.c.id == parts[1])).mappings().first()
        # Compared for an unknown id too, so that the time taken does not tell which ids there are.
        right = compare_digest(_digest(text), str(row["digest"]) if row is not None else _digest(""))
        if row is None or not right:
            return None
        token = _read(row)
        return token if token.valid_at(now_us) else None

    def valid(self, identity: str, now_us: int) -> Token | None:
        """The token of an id, unless it is revoked or expired."""
        with self._state.transaction(write=False) as connection:
            row = connection.execute(sa.select(_token).where(_token.c.id == identity)).mappings().first()
        token = None if row is None else _read(row)
        return token if token is not None and token.valid_at(now_us) else None

    def exist(self) -> bool:
        """Whether any token is in force or has expired: while none is, loopback is admin. A revoked one counts no more."""
        query = sa.select(sa.func.count()).select_from(_token).where(_token.c.revoked_us.is_(None))
        with self._state.transaction(write=False) as connection:
            return bool(connection.scalar(query))

    def list(self) -> tuple[Token, ...]:
        """Every token, also those revoked or expired, the oldest first."""
        query = sa.select(_token).order_by(_token.c.created_us, _token.c.id).limit(MAX_TOKENS)
        with self._state.transaction(write=False) as connection:
            return tuple(_read(row) for row in connection.execute(query).mappings())

    def revoke(self, identity: str, actor: str, at_us: int) -> bool:
        """Ends a token at once; False where it was revoked before. Raises UsageError for an unknown id."""
        with self._state.transaction(write=True) as connection:
            row = connection.execute(sa.select(_token).where(_token.c.id == identity)).mappings().first()
            if row is None:
                raise UsageError(f"token {identity}: unknown; gpuwatch token list names them")
            token = _read(row)
            if token.revoked_us is not None:
                return False
            connection.execute(sa.update(_token).where(_token.c.id == identity).values(revoked_us=at_us))
            record(connection, at_us, actor, f"token {identity} revoked", json.dumps(_public(token)), None)
        return True


def _check(name: str, scope: str, teams: tuple[str, ...] | None, expires_us: int | None, at_us: int) -> None:
    if not name.strip() or len(name) > MAX_NAME or hidden_character(name) is not None:
        raise UsageError(f"token name {name!a}: give 1 to {MAX_NAME} printable characters")
    if name in RESERVED or name.rstrip().endswith((TYPED, LOOPBACK)):
        raise UsageError(f"token name {name!r}: the audit log uses it for somebody else; choose another")
    if scope not in SCOPES:
        raise UsageError(f"token scope {scope!r}: use {', '.join(SCOPES)}")
    if teams is not None:
        if scope != "read":
            raise UsageError(f"token scope {scope}: only a read token is bound to teams")
        if not teams or len(teams) > MAX_TEAMS or any(not t.strip() or len(t) > MAX_NAME for t in teams):
            raise UsageError(f"token teams: name 1 to {MAX_TEAMS} teams of at most {MAX_NAME} characters each")
        for team in teams:
            if (hidden := hidden_character(team)) is not None:
                raise UsageError(f"token team {team!a}: has the hidden character {hidden}; remove it")
    if expires_us is not None and expires_us <= at_us:
        raise UsageError("token expiry: lies in the past")


def _digest(text: str) -> str:
    return sha256(text.encode()).hexdigest()


def _read(row: Any) -> Token:
    teams = None if row["teams"] is None else tuple(json.loads(row["teams"]))
    return Token(**{name: row[name] for name in Token.__dataclass_fields__ if name != "teams"}, teams=teams)


def _public(token: Token) -> dict[str, Any]:
    return {"name": token.name, "scope": token.scope, "teams": token.teams, "expires_us": token.expires_us}
