"""Back-tests: who a rule would have flagged over a past window."""

from __future__ import annotations

from typing import Annotated, Any

from anyio import to_thread
from fastapi import APIRouter, Path, Request
from starlette.responses import Response

from gpuwatch.api.auth import Access, Tester
from gpuwatch.api.bodies import json_body, request_body
from gpuwatch.api.common import PREFIX, Svc, answer, errors, window_of
from gpuwatch.api.errors import ApiError
from gpuwatch.api.schema.findings.backtest import Backtest, BacktestBody

Id = Annotated[str, Path(pattern=r"^[a-z0-9-]{1,60}$", examples=["idle-hoarding"])]
router = APIRouter(prefix=PREFIX, tags=["findings"])


@router.post(
    "/detectors/{rule}/backtest",
    response_model=Backtest,
    responses=errors(404, 415, 422),
    openapi_extra=request_body(BacktestBody),
    summary="Back-tests a rule",
)
async def backtest(request: Request, access: Tester, service: Svc, rule: Id) -> Response:
    """Runs a rule over a past window (at most 31 days), once with the given preset and thresholds and once as
    configured today; stores nothing. An item is a finding of either run: `new`, `same` or `gone`. Team-scoped tokens
    see their own teams.
    """
    body = await json_body(request, BacktestBody)
    return await to_thread.run_sync(_tested, service, access, rule, body)


def _tested(service: Any, access: Access, name: str, body: BacktestBody) -> Response:
    from gpuwatch.analysis.backtest import as_dict, backtest
    from gpuwatch.analysis.backtest_request import asked_thresholds
    from gpuwatch.analysis.rules_listing import all_rules

    span = window_of(body.window, service.now_us())
    with service.reader() as store:
        known = all_rules(service.settings, store)
        if name not in known:
            raise ApiError(404, f"detector {name}: there is none", "GET /api/v1/detectors lists them", "rule")
        preset, thresholds = asked_thresholds(known[name], body.preset, body.thresholds or {})
        tested = backtest(
            store,
            service.state,
            service.settings,
            known[name],
            span,
            service.now_us(),
            preset=preset,
            thresholds=thresholds,
            cluster=body.cluster,
            teams=access.teams,
        )
    return answer(as_dict(tested))
