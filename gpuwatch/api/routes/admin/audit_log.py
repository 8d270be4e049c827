"""The audit log: every change of rates, policies, owners, periods and access."""

from __future__ import annotations

from typing import Annotated

from fastapi import APIRouter, Query
from starlette.responses import Response

from gpuwatch.api.auth import Admin
from gpuwatch.api.common import PREFIX, Svc, answer, errors
from gpuwatch.api.errors import ApiError
from gpuwatch.api.paging import Cursor, CursorText, Limit, decode, encode, question
from gpuwatch.api.schema.admin.audit_log import Audit
from gpuwatch.core.clock import parse_rfc3339
from gpuwatch.core.errors import UsageError
from gpuwatch.state.audit_log import entries, entry_words

router = APIRouter(prefix=PREFIX, tags=["prices and owners"])


@router.get("/audit", response_model=Audit, responses=errors(), summary="Who changed what, and when")
def audit(
    access: Admin,
    service: Svc,
    since: Annotated[str | None, Query(max_length=100, description="RFC 3339.")] = None,
    what: Annotated[
        str | None,
        Query(max_length=200, description="rates, teams, policies, fx, periods, tokens, sign-ins, …; comma-separated."),
    ] = None,
    limit: Limit = 100,
    cursor: CursorText = None,
) -> Response:
    """Newest first. For a replaced card, `difference` has the rows that were added and removed: the first hundred of
    each, and their number; null where too much would have to be read (ask for fewer entries).
    """
    asked = question({"route": "audit", "since": since, "what": what})
    place = decode(cursor, asked)
    try:
        since_us = None if since is None else parse_rfc3339(since)
    except (ValueError, OverflowError) as error:
        raise ApiError(400, f"since {since!r}: not an RFC 3339 time", field="since") from error
    words = [part.strip() for part in (what or "").split(",") if part.strip()]
    below = None if place is None else place.position
    try:
        found = entries(service.state, since_us=since_us, what=words, below=below, limit=limit)
        more = entries(service.state, since_us=since_us, what=words, below=found[-1].id, limit=1) if found else []
    except UsageError as error:
        raise ApiError(400, str(error), field="what") from error
    following = encode(Cursor("", found[-1].id, None), asked) if more else None
    return answer({"items": [entry_words(entry) for entry in found], "next": following})
