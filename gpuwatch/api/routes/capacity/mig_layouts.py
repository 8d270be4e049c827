"""Other layouts of partitioned GPUs: who fits, who moves."""

from __future__ import annotations

from fastapi import APIRouter, Request
from starlette.responses import Response

from gpuwatch.api.answers import kept
from gpuwatch.api.auth import FleetReader
from gpuwatch.api.common import PREFIX, Name, Svc, errors, minute_of
from gpuwatch.api.schema.capacity.mig_layouts import TriedLayouts

router = APIRouter(prefix=PREFIX, tags=["fleet"])


@router.get(
    "/what-if/mig",
    response_model=TriedLayouts,
    responses=errors(),
    summary="What if partitioned GPUs had other layouts?",
)
def mig_layouts(
    request: Request, access: FleetReader, service: Svc, cluster: Name = None, pool: Name = None
) -> Response:
    """An item is a pool and model with MIG instances: every legal layout that fills a GPU, put on all of its GPUs (`layouts`), and the
    changes that serve most of the last week's demand, also on GPUs in use (`plan`). `served_ratio`: the part of the held and
    requested slice time that instances of the same profile could serve. `fit`: holders now that find an instance of their size or larger;
    `move`: those on GPUs that change, which have to stop. Nothing is changed.
    """
    from gpuwatch.capacity.mig_try import try_layouts

    at_us = minute_of(service.now_us())
    return kept(request, access, service, lambda store: try_layouts(store, at_us, cluster=cluster, pool=pool), at_us)
