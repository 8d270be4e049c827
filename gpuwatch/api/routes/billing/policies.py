"""Policies: read, replaced whole, and asked about."""

from __future__ import annotations

from typing import Any

from anyio import to_thread
from fastapi import APIRouter, Request
from starlette.responses import Response

from gpuwatch.api.auth import Admin, Reader
from gpuwatch.api.bodies import POLICY_KINDS, expect, plain, request_body
from gpuwatch.api.common import PREFIX, Svc, WindowText, answer, errors, window_of
from gpuwatch.api.etags import Expected
from gpuwatch.api.proposed_policies import checked, proposed
from gpuwatch.api.schema.billing.policies import Policies, PoliciesBody, WhatIf
from gpuwatch.api.schema.common import Replaced
from gpuwatch.billing import policy_document, what_if
from gpuwatch.core.clock import Window

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
    return answer(document, version=document["version"])


@router.put(
    "/policies",
    response_model=Replaced,
    responses=errors(412, 415),
    openapi_extra=request_body(PoliciesBody, "application/toml"),
    summary="Replaces the policies",
)
async def put_policies(request: Request, access: Admin, service: Svc, expected: Expected) -> Response:
    """JSON or TOML with `policies`. All or nothing: 400 names every mistake; `field` names the first."""
    expect(request, POLICY_KINDS)
    content = await plain(request)
    return await to_thread.run_sync(_replace, service, content, access.name, expected)


@router.post(
    "/policies/what-if",
    response_model=WhatIf,
    responses=errors(415),
    openapi_extra=request_body(PoliciesBody, "application/toml"),
    summary="What teams would pay under other policies",
)
async def ask(request: Request, access: Reader, service: Svc, window: WindowText = "7d") -> Response:
    """The body is a document as for PUT; nothing is changed. Returns each team's cost now, under the document, and the
    difference. 403 `team_scope`: the token is bound to teams, and the document weighs the usage of others (quotas, a
    proportional or even payer or shared cost).
    """
    expect(request, POLICY_KINDS)
    content = await plain(request)
    span = window_of(window, service.now_us())
    return await to_thread.run_sync(_compared, service, content, span, access.teams)


def _replace(service: Any, content: bytes, actor: str, expected: frozenset[str] | None) -> Response:
    with service.reader() as store:
        done = checked(
            lambda: policy_document.replace(store, service.state, content, SOURCE, actor, service.now_us(), expected),
            "nothing was changed: ",
        )
    if done["changed"]:
        service.reprice()
    return answer(done, version=done["version"])


def _compared(service: Any, content: bytes, span: Window, teams: tuple[str, ...] | None) -> Response:
    with service.reader() as store:
        rules = proposed(store, service, content, teams)
        found = what_if.compare(store, service.state, span, rules, teams)
    return answer(policy_document.difference_answer(found, span, what_if.closed_in(service.state, span)))


def _of_teams(item: dict[str, Any], teams: tuple[str, ...]) -> dict[str, Any]:
    shared = [
        cost
        | {"teams": [team for team in cost.get("teams", ()) if team in teams]}
        | {"percentages": {team: part for team, part in cost.get("percentages", {}).items() if team in teams}}
        for cost in item["shared"]
    ]
    return item | {"quotas": [quota for quota in item["quotas"] if quota["team"] in teams], "shared": shared}
