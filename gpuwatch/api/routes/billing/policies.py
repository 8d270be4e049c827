"""Policies: read, replaced whole, and asked about."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from anyio import to_thread
from fastapi import APIRouter, Request
from starlette.responses import Response

from gpuwatch.api.auth import Admin, Reader
from gpuwatch.api.bodies import POLICY_KINDS, expect, plain, request_body
from gpuwatch.api.common import PREFIX, Svc, WindowText, answer, errors, window_of
from gpuwatch.api.errors import ApiError
from gpuwatch.api.schema.billing.policies import Policies, PoliciesBody, WhatIf
from gpuwatch.api.schema.common import Replaced
from gpuwatch.billing import policy_document, what_if
from gpuwatch.core.clock import Window
from gpuwatch.core.errors import UnreadableInput
from gpuwatch.policy.values import PolicyError

NAMED_MAX = 100
"""Mistakes that an answer names; the others are counted."""
SOURCE = "PUT"
router = APIRouter(prefix=PREFIX, tags=["prices and owners"])


@router.get("/policies", response_model=Policies, responses=errors(), summary="The policies in force")
def policies(access: Reader, service: Svc) -> Response:
    """The policies that decide who pays, with earlier versions. Every reader sees the rules; team-scoped tokens see
    only the quotas and shares of their teams.
    """
    document = policy_document.answer(service.state, service.now_us())
    if access.teams is not None:
        document["items"] = [_of_teams(item, access.teams) for item in document["items"]]
        document["history"] = []
    return answer(document)


@router.put(
    "/policies",
    response_model=Replaced,
    responses=errors(415),
    openapi_extra=request_body(PoliciesBody, "application/toml"),
    summary="Replaces the policies",
)
async def put_policies(request: Request, access: Admin, service: Svc) -> Response:
    """JSON or TOML with `policies`. All or nothing: 400 names every mistake; `field` names the first."""
    expect(request, POLICY_KINDS)
    content = await plain(request)
    return await to_thread.run_sync(_replace, service, content, access.name)


@router.post(
    "/policies/what-if",
    response_model=WhatIf,
    responses=errors(415),
    openapi_extra=request_body(PoliciesBody, "application/toml"),
    summary="What teams would pay under other policies",
)
async def ask(request: Request, access: Reader, service: Svc, window: WindowText = "7d") -> Response:
    """The body is a document as for PUT; nothing is changed. Returns each team's cost now, under the document, and the
    difference.
    """
    expect(request, POLICY_KINDS)
    content = await plain(request)
    span = window_of(window, service.now_us())
    return await to_thread.run_sync(_compared, service, content, span, access.teams)


def _replace(service: Any, content: bytes, actor: str) -> Response:
    with service.reader() as store:
        done = _checked(
            lambda: policy_document.replace(store, service.state, content, SOURCE, actor, service.now_us()),
        )
    if done["changed"]:
        service.reprice()
    return answer(done)


def _compared(service: Any, content: bytes, span: Window, teams: tuple[str, ...] | None) -> Response:
    with service.reader() as store:
        rules = _checked(lambda: policy_document.proposed(store, service.state, content, "body", teams))
        found = what_if.compare(store, service.state, span, rules, teams)
    return answer(policy_document.difference_answer(found, span))


def _checked(do: Callable[[], Any]) -> Any:
    try:
        return do()
    except PolicyError as error:
        named = "; ".join(map(str, error.problems[:NAMED_MAX]))
        more = f"; and {len(error.problems) - NAMED_MAX} more" if len(error.problems) > NAMED_MAX else ""
        raise ApiError(
            400, f"nothing was changed: {named}{more}", "correct these and send all", error.problems[0].path
        ) from error
    except UnreadableInput as error:
        raise ApiError(400, str(error), "docs/charge-back/policies.md shows a document", "body") from error


def _of_teams(item: dict[str, Any], teams: tuple[str, ...]) -> dict[str, Any]:
    shared = [
        cost
        | {"teams": [team for team in cost.get("teams", ()) if team in teams]}
        | {"percentages": {team: part for team, part in cost.get("percentages", {}).items() if team in teams}}
        for cost in item["shared"]
    ]
    return item | {"quotas": [quota for quota in item["quotas"] if quota["team"] in teams], "shared": shared}
