"""Spot prices as they were: read, and more of them imported."""

from __future__ import annotations

from typing import Annotated, Any

from anyio import to_thread
from fastapi import APIRouter, Query, Request
from starlette.responses import Response

from gpuwatch.api.auth import Admin, Reader
from gpuwatch.api.bodies import expect, plain
from gpuwatch.api.card_bodies import KINDS, SOURCE, listed, refused, replaced
from gpuwatch.api.common import PREFIX, Name, Svc, errors
from gpuwatch.api.errors import ApiError
from gpuwatch.api.etags import Expected
from gpuwatch.api.paging import CursorText, Limit
from gpuwatch.api.schema.billing.spot import SpotPrices
from gpuwatch.api.schema.common import Replaced
from gpuwatch.core.errors import UnreadableInput, UsageError
from gpuwatch.rates import in_force
from gpuwatch.rates import spot as rates_spot

router = APIRouter(prefix=PREFIX, tags=["prices and owners"])
Instances = Annotated[
    list[str] | None, Query(max_length=100, description=f"The GPUs of an instance type: {rates_spot.MAPPING}.")
]
Currency = Annotated[str, Query(pattern="^[A-Z]{3}$")]


@router.get("/spot", response_model=SpotPrices, responses=errors(), summary="Imported spot prices")
def spot_prices(access: Reader, service: Svc, limit: Limit = 1000, cursor: CursorText = None) -> Response:
    """The price of an instance-hour from `at` until the next price of its series."""
    items = [rates_spot.shown(one) for one in in_force.spot_prices(service.state)]
    return listed(items, service.state.card_version(rates_spot.CARD), limit, cursor)


@router.post(
    "/spot",
    response_model=Replaced,
    responses=errors(412, 415),
    openapi_extra={
        "requestBody": {
            "required": True,
            "content": {"application/json": {"schema": {}}, "text/csv": {"schema": {"type": "string"}}},
        }
    },
    summary="Adds spot prices",
)
async def add_spot(
    request: Request,
    access: Admin,
    service: Svc,
    expected: Expected,
    instance: Instances = None,
    zone: Name = None,
    product: Name = None,
    currency: Currency = "USD",
    cluster: Name = None,
    pool: Name = None,
    assume_spot: bool = False,
) -> Response:
    """The output of `aws ec2 describe-spot-price-history`, or CSV with its columns; `zone` and `product` choose one
    series. All or nothing; known prices change nothing. Charges are priced again. What others add at the same time stays;
    with `If-Match`, it is refused instead.
    """
    expect(request, KINDS)
    words: dict[str, Any] = {"zone": zone, "product": product, "currency": currency, "cluster": cluster, "pool": pool}
    words["assume_spot"] = assume_spot
    return await to_thread.run_sync(_add, service, await plain(request), instance or [], words, access.name, expected)


def _add(
    service: Any,
    content: bytes,
    instances: list[str],
    words: dict[str, Any],
    actor: str,
    expected: frozenset[str] | None,
) -> Response:
    try:
        new = rates_spot.parse_spot(content, "body", rates_spot.instances_of(instances), **words)
        changed = in_force.add_spot(service.state, new, actor, SOURCE, service.now_us(), expected)
    except UnreadableInput as error:
        raise ApiError(400, str(error), "send what describe-spot-price-history prints", "body") from error
    except UsageError as error:
        raise refused(error) from error
    if changed:
        service.reprice()
    return replaced(changed, service.state.card_version(rates_spot.CARD), len(new))
