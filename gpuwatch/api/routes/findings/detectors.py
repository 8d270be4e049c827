"""The rules: texts, thresholds in force and owners' feedback; and the presets and thresholds that admins set."""

from __future__ import annotations

from dataclasses import asdict
from typing import Any

from anyio import to_thread
from fastapi import APIRouter, Request
from starlette.responses import Response

from gpuwatch.api.auth import Admin, Reader
from gpuwatch.api.bodies import POLICY_KINDS, expect, plain, request_body
from gpuwatch.api.common import PREFIX, Svc, answer, errors
from gpuwatch.api.errors import ApiError
from gpuwatch.api.etags import Expected
from gpuwatch.api.paging import CursorText, Limit, decode, page, question
from gpuwatch.api.schema.common import Replaced
from gpuwatch.api.schema.findings.detectors import Detectors, DetectorsBody, DetectorsCard
from gpuwatch.core.errors import UnreadableInput
from gpuwatch.findings import custom_rules
from gpuwatch.policy.values import PolicyError

NAMED_MAX = 100
"""Mistakes that an answer names; the others are counted."""
router = APIRouter(prefix=PREFIX, tags=["findings"])


@router.get("/detectors", response_model=Detectors, responses=errors(), summary="The rules")
def detectors(access: Reader, service: Svc, limit: Limit = 100, cursor: CursorText = None) -> Response:
    """Title, reason, thresholds in force with their sources, and owners' feedback. The remedy depends on the evidence:
    each finding has its own. `presets` lists the values of each preset. `refused` lists site files that are not valid
    rules, with line and reason.
    """
    from gpuwatch.analysis.rules_listing import all_rules, listed, presets

    with service.reader() as store:
        known = all_rules(service.settings, store)
    bound = access.teams is not None
    items = listed(known, service.state, service.settings, bound)
    asked = question({"route": "detectors"})
    chosen, following = page(items, limit, decode(cursor, asked), asked, lambda item: str(item["id"]))
    refused = [] if bound else [asdict(each) for each in custom_rules.refused()]
    return answer({"items": chosen, "presets": presets(), "refused": refused, "next": following})


@router.get("/detectors/card", response_model=DetectorsCard, responses=errors(), summary="Presets and thresholds")
def card(access: Reader, service: Svc) -> Response:
    """The presets, thresholds and rules in force in general, by pool and by team, with earlier versions. Team-scoped
    tokens see only their own teams.
    """
    from gpuwatch.findings.threshold_overrides import answer as overrides_answer

    found = overrides_answer(service.state, access.teams)
    return answer(found, version=found["version"])


@router.put(
    "/detectors/card",
    response_model=Replaced,
    responses=errors(412, 415),
    openapi_extra=request_body(DetectorsBody, "application/toml"),
    summary="Sets presets and thresholds",
)
async def put_card(request: Request, access: Admin, service: Svc, expected: Expected) -> Response:
    """JSON or TOML. All or nothing: 400 names every mistake; `field` names the first."""
    expect(request, POLICY_KINDS)
    content = await plain(request)
    return await to_thread.run_sync(_put, service, content, access.name, expected)


def _put(service: Any, content: bytes, actor: str, expected: frozenset[str] | None) -> Response:
    from gpuwatch.analysis.rules_listing import all_rules, pools_of
    from gpuwatch.findings.threshold_overrides import put, read
    from gpuwatch.policy.known_names import team_names

    try:
        with service.reader() as store:
            teams = team_names(store, service.state) or None
            found = read(content, "body", all_rules(service.settings, store), teams, pools_of(store))
    except PolicyError as error:
        named = "; ".join(map(str, error.problems[:NAMED_MAX]))
        more = f"; and {len(error.problems) - NAMED_MAX} more" if len(error.problems) > NAMED_MAX else ""
        raise ApiError(
            400, f"nothing was changed: {named}{more}", "correct these and send all", error.problems[0].path
        ) from error
    except UnreadableInput as error:
        raise ApiError(400, str(error), "docs/act/thresholds.md shows a document", "body") from error
    done = put(service.state, found, "PUT", actor, service.now_us(), expected)
    if done["changed"]:
        service.wake()
    return answer(done, version=done["version"])
