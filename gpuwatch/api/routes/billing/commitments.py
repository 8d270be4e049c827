"""Commitments: how much of what was committed to was used."""

from __future__ import annotations

from fastapi import APIRouter
from starlette.responses import Response

from gpuwatch.api.auth import FleetReader
from gpuwatch.api.common import PREFIX, Svc, WindowText, answer, errors, window_of, words
from gpuwatch.api.schema.billing.commitments import Commitments
from gpuwatch.rates.commitments import commitments as used
from gpuwatch.rates.commitments import counted, shown

router = APIRouter(prefix=PREFIX, tags=["prices and owners"])


@router.get("/commitments", response_model=Commitments, responses=errors(), summary="Commitments, used and unused")
def commitments(access: FleetReader, service: Svc, window: WindowText = "month") -> Response:
    """Used time was held by jobs; unused time was idle in the fleet, or beyond the size of the fleet (that part is in
    no charge). Not for team-scoped tokens, because it shows the use of the whole fleet.
    """
    span = window_of(window, service.now_us())
    with service.reader() as store:
        items = [shown(one) for one in used(store, service.state, span)]
        known = counted(store, span)
    return answer({"items": items, "window": words(span), "counted": known and words(known), "next": None})
