"""Liveness, readiness and the service's own metrics."""

from __future__ import annotations

from collections import Counter
from typing import Any

from fastapi import APIRouter, Request
from prometheus_client import CONTENT_TYPE_LATEST, generate_latest
from starlette.responses import RedirectResponse, Response

from gpuwatch.api.auth import anyone, guard_of
from gpuwatch.api.common import Svc, answer, errors
from gpuwatch.api.errors import ApiError, TeamScope
from gpuwatch.api.schema.admin.health import Live, Ready
from gpuwatch.core.clock import SECOND_US, rfc3339
from gpuwatch.core.errors import GpuwatchError

UNTOLD = "ask on the server's own machine, or with a token of the whole fleet, for the reasons"
MAX_SOURCES = 1000
"""Sources that one answer names."""

router = APIRouter(tags=["service"])


@router.get("/", include_in_schema=False)
async def root(service: Svc) -> Response:
    """To the user interface; a process without pages shows its API."""
    return RedirectResponse("/ui/" if service.role.pages else "/docs", 307)


@router.get("/healthz", response_model=Live, responses=errors(), summary="Liveness")
async def healthz() -> Response:
    """200 as long as the process responds. Needs no token."""
    return answer({"status": "ok"})


@router.get(
    "/readyz",
    response_model=Ready,
    responses={**errors(), 503: {"model": Ready}},
    summary="Readiness: store, writer, analyzer, and the lag of each source",
)
async def readyz(request: Request, service: Svc) -> Response:
    """503 with reasons while the store does not respond or cannot be written. 200 with status `degraded` and the reasons
    while the last analysis failed, the lake is late, or the server's clock is in doubt. Failing sources and a late analyzer are listed,
    but do not make the service unready. Needs no token; the names of sources are shown only to loopback and to
    tokens for the whole fleet. A replica has `mirror`: everything that was published up to `as_of` is in its answers; it is unready until
    its first copy of the lake is whole.
    """
    try:
        named = await guard_of(request).trusted(request)
    except (ApiError, GpuwatchError):
        named = False
    ready = await guard_of(request).probe(readiness, service, named)
    return answer(ready, 503 if ready["status"] == "unready" else 200)


@router.get(
    "/metrics",
    response_class=Response,
    responses={**errors(), 200: {"content": {"text/plain": {"schema": {"type": "string"}}}}},
    summary="Own metrics in Prometheus text, prefix gpuwatch_",
)
async def metrics(request: Request, service: Svc) -> Response:
    """Loopback, or any token that is not bound to teams. What teams cost and waste needs scope read or admin."""
    guard = guard_of(request)
    if not await guard.trusted(request):
        access = await anyone(request)
        raise TeamScope(f"token {access.name!r} is bound to teams; metrics are of the whole service")
    content = await guard.run(generate_latest, service.metrics)
    if await _reads_all(request):
        content += await guard.run(generate_latest, service.fleet_metrics)
    return Response(content, media_type=CONTENT_TYPE_LATEST)


async def _reads_all(request: Request) -> bool:
    """Whether the caller may read every team's charges: a local caller too only while no token exists."""
    try:
        access = await guard_of(request).access(request)
    except (ApiError, GpuwatchError):
        return False
    return access.reads and access.teams is None


def readiness(service: Any, named: bool) -> dict[str, Any]:
    """What /readyz says; `named` adds the sources by name and what failed."""
    problems = service.problems()
    reasons = [*problems, *service.concerns()]
    ready = {
        "status": "unready" if problems else "degraded" if reasons else "ready",
        "reasons": reasons if named else [UNTOLD] * bool(reasons),
        "analyzer": _analyzer(service, named),
        "sources": _sources(service, named),
    }
    return ready if service.mirror is None else ready | {"mirror": _mirror(service, named)}


def _mirror(service: Any, named: bool) -> dict[str, Any]:
    found = service.mirror.status
    age_s = None if found.as_of_us is None else (service.now_us() - found.as_of_us) / SECOND_US
    known: dict[str, Any] = {"as_of": None if found.as_of_us is None else rfc3339(found.as_of_us), "age_s": age_s}
    if named:
        known["cells"] = [
            {"cell": cell, "published": rfc3339(at_us)} for cell, at_us in sorted(found.published_us.items())
        ]
    return known


def _analyzer(service: Any, named: bool) -> dict[str, Any]:
    found = service.analysis()
    lag = None if found.ledger_until_us is None else (service.now_us() - found.ledger_until_us) / SECOND_US
    failed = found.last_error is not None
    return {
        "ok": not failed,
        "reason": (found.last_error if named else "the last pass failed") if failed else None,
        "running": found.running,
        "lag_s": lag,
    }


def _sources(service: Any, named: bool) -> dict[str, Any]:
    now_us = service.now_us()
    found = service.sources()
    states = Counter(source.state(now_us) for source in found)
    counts: dict[str, Any] = {state: states[state] for state in ("ok", "late", "failing", "never")}
    if named:
        counts["items"] = [
            {
                "source": source.name,
                "kind": source.kind,
                "cluster": source.cluster,
                "state": source.state(now_us),
                "lag_s": None if source.last_success_us is None else (now_us - source.last_success_us) / SECOND_US,
                "error": source.error,
            }
            for source in found[:MAX_SOURCES]
        ]
    return counts
