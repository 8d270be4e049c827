"""Models of the answer to who would own something."""

from __future__ import annotations

from pydantic import Field

from gpuwatch.api.schema.billing.rates import TeamRule
from gpuwatch.api.schema.common import Strict


class PlacedRule(TeamRule):
    place: int = Field(description="Its place in the list of rules, from 1.")


class OwnerWords(Strict):
    cluster: str | None
    queue: str | None
    namespace: str | None
    account: str | None
    user: str | None
    labels: str | None


class DecidedOwner(Strict):
    team: str
    why: str
    inferred: bool = Field(description="The account or namespace names the team, because no rule decides.")
    rule: PlacedRule | None = Field(description="The rule that decides.")
    of: OwnerWords


class DecidedOwners(Strict):
    items: list[DecidedOwner]
