"""Models of the tokens routes."""

from __future__ import annotations

from pydantic import Field

from gpuwatch.api.schema.common import Scope, Strict, Time


class Token(Strict):
    id: str
    name: str
    scope: Scope
    teams: list[str] | None
    created_at: Time
    created_by: str
    expires_at: Time | None
    revoked_at: Time | None


class TokenItems(Strict):
    items: list[Token]
    next: str | None


class TokenBody(Strict):
    name: str = Field(min_length=1, max_length=100, examples=["vision dashboard"])
    scope: Scope
    teams: list[str] | None = Field(None, max_length=100, description="Only for scope read; null: every team.")
    expires_at: Time | None = Field(None, description="null: it does not expire.")


class TokenMade(Token):
    token: str = Field(description="The text to send. It is not shown again.")
