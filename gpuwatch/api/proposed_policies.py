"""Policy documents in requests: mistakes as errors, and what a token that is bound to teams may ask for."""

from __future__ import annotations

from collections.abc import Callable, Collection
from typing import Any, TypeVar

from gpuwatch.api.errors import ApiError, TeamScope
from gpuwatch.billing import policy_document
from gpuwatch.core.errors import UnreadableInput
from gpuwatch.policy.other_teams import weighs_others
from gpuwatch.policy.policy import Policies
from gpuwatch.policy.values import PolicyError
from gpuwatch.store.database import Store

NAMED_MAX = 100
"""Mistakes that an answer names; the others are counted."""
T = TypeVar("T")


def proposed(store: Store, service: Any, content: bytes, teams: Collection[str] | None) -> Policies:
    """The policies of a body that are to be compared. Raises ApiError, also for what a bound token may not compare."""
    return within(teams, checked(lambda: policy_document.proposed(store, service.state, content, "body", teams)))


def within(teams: Collection[str] | None, policies: Policies, field: str | None = None) -> Policies:
    """The policies, unless a token for `teams` could compute the usage of other teams with them."""
    if teams is not None and (place := weighs_others(policies, teams)) is not None:
        raise TeamScope(
            f"{field or place}: the result depends on the usage of other teams, and the token is bound to teams",
            field or place,
        )
    return policies


def checked(do: Callable[[], T], prefix: str = "") -> T:
    """The result, or ApiError 400 that names every mistake of a document."""
    try:
        return do()
    except PolicyError as error:
        named = "; ".join(map(str, error.problems[:NAMED_MAX]))
        more = f"; and {len(error.problems) - NAMED_MAX} more" if len(error.problems) > NAMED_MAX else ""
        raise ApiError(400, f"{prefix}{named}{more}", "correct these and send all", error.problems[0].path) from error
    except UnreadableInput as error:
        raise ApiError(400, str(error), "docs/charge-back/policies.md shows a document", "body") from error
