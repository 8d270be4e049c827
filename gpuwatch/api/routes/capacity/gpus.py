"""GPUs over time, and one GPU with its history."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Annotated, Any, Literal

from fastapi import APIRouter, Path, Query, Request
from starlette.responses import Response

from gpuwatch.api.answers import kept
from gpuwatch.api.auth import FleetReader
from gpuwatch.api.common import PREFIX, Name, Svc, WindowText, answer, errors, window_of, words
from gpuwatch.api.errors import ApiError
from gpuwatch.api.paging import Cursor, CursorText, decode, encode, question
from gpuwatch.api.schema.capacity.gpus import Gpu, Heat
from gpuwatch.core.clock import Window
from gpuwatch.findings.repository import Actions

if TYPE_CHECKING:
    from gpuwatch.store.database import Store

router = APIRouter(prefix=PREFIX, tags=["fleet"])
Measure = Literal["gr_engine_ratio", "sm_active_ratio", "fb_used_gib", "power_watts", "gpu_temp_celsius", "health"]


@router.get("/gpus", response_model=Heat, responses=errors(), summary="GPUs over time")
def gpus(
    request: Request,
    access: FleetReader,
    service: Svc,
    window: WindowText = "7d",
    measure: Annotated[
        Measure, Query(description="health: 0 good, 1 an XID or a pending row remap, 2 an uncorrected memory error.")
    ] = "gr_engine_ratio",
    cluster: Name = None,
    pool: Name = None,
    q: Annotated[str | None, Query(max_length=200, description="Words in node, UUID or model.")] = None,
    limit: Annotated[int, Query(ge=1, le=500, description="Maximum number of GPUs in this page.")] = 200,
    cursor: CursorText = None,
) -> Response:
    """A heat map: one measure of every GPU by step, at most 200 steps of whole hours. Use and power are means while the GPU was
    held, memory and temperature peaks whether it was held or not. `held` tells a free GPU from one that was not read.
    """
    from gpuwatch.capacity import heat

    asked = question({"route": "gpus", "window": window, "cluster": cluster, "pool": pool, "q": q})
    place = decode(cursor, asked)
    span = _bounded(window_of(window, service.now_us()) if place is None or place.window is None else place.window)
    after = None if place is None else tuple(json.loads(place.key))

    def look(store: Store) -> dict[str, Any]:
        facts = heat.gpus(store, span, cluster=cluster, pool=pool, q=q, after=after, limit=limit + 1)
        shown = facts[:limit]
        cells = heat.heat(store, span, shown, [measure])
        following = None
        if len(facts) > limit:
            following = encode(Cursor(json.dumps(heat.place_of(shown[-1])), 0, span), asked)
        values, estimated = cells.pop("values"), cells.pop("estimated")
        items = [
            {**fact, "values": cell[measure], "held": cell[heat.HELD], "estimated": guessed}
            for fact, cell, guessed in zip(shown, values, estimated, strict=True)
        ]
        return {"items": items, "measure": measure, **cells, "window": words(span), "next": following}

    return kept(request, access, service, look, span)


@router.get("/gpus/{gpu:path}", response_model=Gpu, responses=errors(404), summary="One GPU")
def gpu(
    access: FleetReader,
    service: Svc,
    gpu: Annotated[str, Path(max_length=256, description="The UUID of the GPU.", examples=["GPU-1c1abed6"])],
    window: WindowText = "7d",
    cluster: Name = None,
) -> Response:
    """All measures by step, who held it, and the findings about it. `cluster` is needed only if two clusters have one UUID."""
    from gpuwatch.capacity import heat
    from gpuwatch.findings.read import page

    now_us = service.now_us()
    span = _bounded(window_of(window, now_us))
    with service.reader() as store:
        facts = heat.gpus(store, span, cluster=cluster, gpu=gpu, limit=1)
        if not facts:
            raise ApiError(404, "gpu: there is none with this UUID", "GET /api/v1/gpus lists them", "gpu")
        cells = heat.heat(store, span, facts, heat.MEASURES)
        history = heat.history(store, facts[0]["cluster"], gpu, span)
        keys: list[str] = history.pop("findings")
        found = page(store, keys=keys, sort="started", actions=Actions(service.state).current(now_us)).items
    findings: list[dict[str, Any]] = [one.as_dict() for one in found]
    values, estimated = cells.pop("values")[0], cells.pop("estimated")[0]
    return answer(
        {
            "gpu": facts[0],
            **cells,
            "values": values,
            "estimated": estimated,
            **history,
            "findings": findings,
            "window": words(span),
        }
    )


def _bounded(span: Window) -> Window:
    """The window, if it is not longer than can be drawn; ApiError 400 naming it."""
    from gpuwatch.capacity.heat import WINDOW_US_MAX

    if span.end_us - span.start_us > WINDOW_US_MAX:
        raise ApiError(400, "window: longer than 200 days", "choose a shorter one", "window")
    return span
