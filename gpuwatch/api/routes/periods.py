"""Billing periods: closed, and what changed since."""

from __future__ import annotations

from decimal import Decimal
from typing import Any

from anyio import to_thread
from fastapi import APIRouter, Request
from starlette.responses import Response

from gpuwatch.api.auth import Admin, FleetReader
from gpuwatch.api.bodies import json_body
from gpuwatch.api.common import PREFIX, Svc, answer, errors, words
from gpuwatch.api.errors import ApiError
from gpuwatch.api.paging import CursorText, Limit, decode, page, question
from gpuwatch.api.schema_set import Period, PeriodBody, Periods
from gpuwatch.clock import DAY_US, Window, rfc3339
from gpuwatch.cost import chargeback
from gpuwatch.errors import StoreBusy, UsageError
from gpuwatch.state import periods
from gpuwatch.state.periods import PeriodConflict
from gpuwatch.store import Store

PAGE = 10
"""Periods of a page unless asked otherwise: the corrections of each are computed."""
PAGE_MAX = 53
HOURS = 24
DAYS_NAMED = 8
"""Days that a refusal names; it counts the rest."""

router = APIRouter(prefix=PREFIX, tags=["prices and owners"])


@router.get("/periods", response_model=Periods, responses=errors(), summary="Closed periods and their corrections")
def listed(access: FleetReader, service: Svc, limit: Limit = PAGE, cursor: CursorText = None) -> Response:
    """The newest first. `rows` are as they were frozen; `corrections` are what today's books say minus those."""
    asked = question({"route": "periods"})
    every = periods.Periods(service.state).list()
    chosen, following = page(every, min(limit, PAGE_MAX), decode(cursor, asked), asked, lambda period: period.name)
    with service.reader() as store:
        items = [_shown(period, charges(store, service.state, period.window)) for period in chosen]
    return answer({"items": items, "next": following})


@router.post(
    "/periods",
    status_code=201,
    response_model=Period,
    responses=errors(409, 415),
    openapi_extra={
        "requestBody": {
            "required": True,
            "content": {"application/json": {"schema": {"$ref": "#/components/schemas/PeriodBody"}}},
        }
    },
    summary="Closes a week or a month",
)
async def close(request: Request, access: Admin, service: Svc) -> Response:
    """Freezes the charges of a finished period. 409: it is not over, not booked (yet, or not on
    every day, unless `force`), closed, or overlaps a closed one.
    """
    body = await json_body(request, PeriodBody)
    return await to_thread.run_sync(_close, service, body.period, body.force, access.name)


def charges(store: Store, state: Any, window: Window) -> list[dict[str, Any]]:
    """The rows that a period freezes: charges by periods.BY."""
    return [
        {
            **{name: charge.group[name] for name in periods.BY},
            "kind": charge.kind,
            "currency": charge.currency,
            "gpu_seconds": f"{charge.gpu_seconds:f}",
            "cost": None if charge.cost is None else f"{charge.cost:f}",
        }
        for charge in chargeback(store, state, window, periods.BY).items
        if charge.kind != "correction"
    ]


def _close(service: Any, name: str, force: bool, actor: str) -> Response:
    try:
        window = periods.finished(name, service.now_us())
    except PeriodConflict:
        raise
    except UsageError as error:
        raise ApiError(400, str(error), field="period") from error
    if not service.reprice():
        raise StoreBusy(f"period {name}: an analysis holds the books; close it when that is done")
    # One transaction: what is owed and what is frozen are of the same books.
    with service.reader() as store, store.transaction():
        owed = store.sql(
            "select (select count(*) from dirty_hour where hour_us >= $start_us and hour_us < $end_us)"
            " + (select count(distinct observed_us // 3600000000) from sample_tail"
            " where observed_us >= $start_us and observed_us < $end_us)",
            start_us=window.start_us,
            end_us=window.end_us,
        )[0][0]
        if owed:
            raise ApiError(
                409, f"period {name}: {owed} of its hours are not booked yet", "close it after the next analysis"
            )
        if not force and (missing := _missing_days(store, window)):
            shown = ", ".join(missing[:DAYS_NAMED]) + (" and more" if len(missing) > DAYS_NAMED else "")
            raise ApiError(
                409,
                f"period {name}: the books do not cover {len(missing)} of its days: {shown}",
                'a closed period stays as it is: import what is missing first, or send "force": true',
            )
        rows = charges(store, service.state, window)
    closed = periods.Periods(service.state).close(name, rows, actor, service.now_us())
    return answer(_shown(closed, rows), 201)


def _missing_days(store: Store, window: Window) -> list[str]:
    """Days (2026-11-09) of the window with hours that no device has books of."""
    booked = store.sql(
        "select hour_us // 86400000000, count(distinct hour_us) from ledger_hour"
        " where hour_us >= $start_us and hour_us < $end_us group by 1",
        start_us=window.start_us,
        end_us=window.end_us,
    )
    whole = {day for day, hours in booked if hours == HOURS}
    days = range(window.start_us // DAY_US, -(-window.end_us // DAY_US))
    return [rfc3339(day * DAY_US)[:10] for day in days if day not in whole]


def _shown(period: periods.Period, current: list[dict[str, Any]]) -> dict[str, Any]:
    currencies = {row["currency"] for row in period.rows if row["currency"] is not None}
    costs = [Decimal(row["cost"]) for row in period.rows if row["cost"] is not None]
    return {
        "period": period.name,
        "window": words(period.window),
        "closed_at": rfc3339(period.closed_us),
        "closed_by": period.closed_by,
        "digest": period.digest,
        "gpu_seconds": f"{sum((Decimal(row['gpu_seconds']) for row in period.rows), Decimal(0)):f}",
        "cost": f"{sum(costs, Decimal(0)):f}" if len(currencies) <= 1 else None,
        "currency": next(iter(currencies)) if len(currencies) == 1 else None,
        "rows": list(period.rows),
        "corrections": periods.corrections(period.rows, current),
    }
