"""Bills of clouds beside the books."""

from __future__ import annotations

from typing import Annotated, Literal

from fastapi import APIRouter, Query
from starlette.responses import Response

from gpuwatch.api.auth import FleetReader
from gpuwatch.api.common import PREFIX, Name, Svc, WindowText, answer, errors, window_of
from gpuwatch.api.paging import Cursor, CursorText, Limit, decode, encode, question
from gpuwatch.api.schema import Money, Shape, Span
from gpuwatch.export import render
from gpuwatch.reconcile import reconcile
from gpuwatch.reconcile_listing import reconcile_answer, reconcile_listing

PAGE = 1000

router = APIRouter(prefix=PREFIX, tags=["books"])


class Sums(Shape):
    """What both sides say; the parts that follow add up to `difference`."""

    currency: str | None
    bill: Money
    gpuwatch: Money
    difference: Money
    untracked: Money
    unbilled: Money
    price: Money
    boundaries: Money
    discounts: Money
    taxes: Money
    commitments: Money
    not_gpu: Money
    no_rate: Money
    not_convertible: Money
    unexplained: Money


class SumsOfGroup(Sums):
    final: bool


class PriceOfBill(Shape):
    provider: str
    gpu_model: str
    pricing: str
    bill_per_gpu_hour: Money
    card_per_gpu_hour: Money | None
    currency: str
    rates_csv: str


class Reconciled(Shape):
    items: list[SumsOfGroup]
    window: Span
    by: Literal["day", "node", "account"]
    cost: Literal["effective", "billed"]
    totals: list[Sums]
    suggestions: list[PriceOfBill]
    notes: list[str]
    next: str | None


@router.get(
    "/reconcile",
    response_model=Reconciled,
    responses={**errors(), 200: {"content": {"text/csv": {"schema": {"type": "string"}}}}},
    summary="Bills of clouds beside the books",
)
def reconciled(
    access: FleetReader,
    service: Svc,
    window: WindowText = "7d",
    by: Annotated[Literal["day", "node", "account"], Query(description="What a row is.")] = "day",
    provider: Name = None,
    cost: Annotated[Literal["effective", "billed"], Query(description="Which cost of the bill.")] = "effective",
    format: Annotated[Literal["json", "csv"], Query(description="A file is whole.")] = "json",
    limit: Limit = PAGE,
    cursor: CursorText = None,
) -> Response:
    """Whole UTC days that the window touches. Of each row the parts add up to `difference` exactly; `totals`,
    `suggestions` and `notes` are of all pages.
    """
    asked = question({"window": window, "by": by, "provider": provider, "cost": cost})
    place = decode(cursor, asked)
    now_us = service.now_us()
    span = window_of(window, now_us) if place is None or place.window is None else place.window
    with service.reader() as store:
        found = reconcile(store, service.state, span, now_us=now_us, by=by, provider=provider, cost=cost)
    told = reconcile_answer(found)
    if format == "csv":
        content, media_type = render(reconcile_listing(told), "csv")
        return Response(content, media_type=media_type)
    start = 0 if place is None else place.position
    items = told["items"][start : start + limit]
    more = start + limit < len(told["items"])
    following = encode(Cursor("", start + limit, span), asked) if more else None
    return answer({**told, "items": items, "next": following})
