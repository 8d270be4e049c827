"""Rate cards and ownership rules: read, and replaced whole."""

from __future__ import annotations

from collections.abc import Callable
from decimal import Decimal
from typing import Any, cast

from anyio import to_thread
from fastapi import APIRouter, Request
from starlette.responses import Response

from gpuwatch.api.auth import Admin, Reader
from gpuwatch.api.bodies import expect, json_body, plain
from gpuwatch.api.common import PREFIX, Svc, answer, errors
from gpuwatch.api.errors import ApiError
from gpuwatch.api.paging import CursorText, Limit, decode, page, question
from gpuwatch.api.schema_set import Rates, RatesBody, Replaced, TeamRules, TeamsBody
from gpuwatch.clock import parse_rfc3339, rfc3339
from gpuwatch.errors import UnreadableInput, UsageError
from gpuwatch.model import Rejects
from gpuwatch.rates import Rate, parse_rates
from gpuwatch.teams import TeamRule, parse_teams

KINDS = ("application/json", "text/csv")
NAMED_MAX = 100
"""Bad rows that an answer names; the others are counted."""
SOURCE = "PUT"

router = APIRouter(prefix=PREFIX, tags=["prices and owners"])


def _body(model: str) -> dict[str, Any]:
    schema = {"$ref": f"#/components/schemas/{model}"}
    csv = {"schema": {"type": "string"}}
    return {"requestBody": {"required": True, "content": {"application/json": {"schema": schema}, "text/csv": csv}}}


@router.get("/rates", response_model=Rates, responses=errors(), summary="The rate card in force")
def rates(access: Reader, service: Svc, limit: Limit = 1000, cursor: CursorText = None) -> Response:
    """Prices per whole GPU-hour and their validity. Every reader may see them: they are prices, nobody's use."""
    items = [_rate_row(rate) for rate in service.state.rates()]
    return _listed(items, service.state.card_version("rates"), limit, cursor)


@router.put(
    "/rates",
    response_model=Replaced,
    responses=errors(415),
    openapi_extra=_body("RatesBody"),
    summary="Replaces the rate card",
)
async def put_rates(request: Request, access: Admin, service: Svc) -> Response:
    """JSON `items`, or the CSV of rates.csv. All or nothing: 400 names every bad row. Charges are priced anew."""
    if expect(request, KINDS) == "text/csv":
        kept = await _from_csv(request, parse_rates)
    else:
        body = cast(RatesBody, await json_body(request, RatesBody))
        kept = _checked([row.model_dump() for row in body.items], _rate)
    return await to_thread.run_sync(_replace, service, "rates", service.state.replace_rates, kept, access.name)


@router.get("/teams", response_model=TeamRules, responses=errors(), summary="The ownership rules in force")
def teams(access: Reader, service: Svc, limit: Limit = 1000, cursor: CursorText = None) -> Response:
    """In the order in which they decide. A token bound to teams sees the rules of its teams."""
    items = [
        {"match_kind": rule.match_kind, "match": rule.match, "team": rule.team}
        for rule in service.state.team_rules()
        if access.teams is None or rule.team in access.teams
    ]
    return _listed(items, service.state.card_version("teams"), limit, cursor)


@router.put(
    "/teams",
    response_model=Replaced,
    responses=errors(415),
    openapi_extra=_body("TeamsBody"),
    summary="Replaces the ownership rules",
)
async def put_teams(request: Request, access: Admin, service: Svc) -> Response:
    """JSON `items`, or the CSV of teams.csv, in the order in which rules decide. All or nothing."""
    if expect(request, KINDS) == "text/csv":
        kept = await _from_csv(request, parse_teams)
    else:
        body = cast(TeamsBody, await json_body(request, TeamsBody))
        kept = _checked([row.model_dump() for row in body.items], lambda row, line: TeamRule(**row, line=line))
        _decided(kept)
    return await to_thread.run_sync(_replace, service, "teams", service.state.replace_team_rules, kept, access.name)


def _listed(items: list[dict[str, Any]], version: int, limit: int, cursor: str | None) -> Response:
    # A cursor of another version would point into another list.
    asked = question({"version": version})
    places = list(enumerate(items))
    chosen, following = page(places, limit, decode(cursor, asked), asked, lambda item: str(item[0]))
    return answer({"items": [item for _, item in chosen], "version": version, "next": following})


def _replace(service: Any, kind: str, replace: Callable[..., bool], kept: list[Any], actor: str) -> Response:
    changed = replace(kept, actor, SOURCE, service.now_us())
    if changed:
        service.reprice()
    return answer({"changed": changed, "version": service.state.card_version(kind), "rows": len(kept)})


async def _from_csv(request: Request, parse: Callable[..., Any]) -> list[Any]:
    content = await plain(request)
    rejects = _Every()
    try:
        kept = await to_thread.run_sync(parse, content, "body", rejects)
    except UnreadableInput as error:
        raise ApiError(400, str(error), "send CSV with the header that the message names", "body") from error
    if rejects.total:
        raise _refused(rejects.named, rejects.total)
    return list(kept)


class _Every(Rejects):
    """Refusals with the line of each, not of the first of a reason only."""

    def __init__(self) -> None:
        super().__init__()
        self.named: list[str] = []

    def add(self, reason: str, file: str, line: int, text: str = "", count: int = 1) -> None:
        super().add(reason, file, line, text, count)
        if len(self.named) < NAMED_MAX:
            self.named.append(f"line {line}: {reason}")


def _checked(rows: list[dict[str, Any]], make: Callable[[dict[str, Any], int], Any]) -> list[Any]:
    """Every row as a record, or ApiError 400 naming each bad one."""
    kept, bad = [], []
    for place, row in enumerate(rows):
        try:
            kept.append(make(row, place + 1))
        except (UsageError, ValueError) as error:
            bad.append(f"items.{place}: {error.__cause__ or error}")
    if bad:
        raise _refused(bad[:NAMED_MAX], len(bad))
    return kept


def _decided(rules: list[TeamRule]) -> None:
    """One match is given to one team, as in a file."""
    first: dict[tuple[str, str], TeamRule] = {}
    bad = []
    for place, rule in enumerate(rules):
        earlier = first.setdefault((rule.match_kind, rule.match), rule)
        if earlier.team != rule.team:
            bad.append(f"items.{place}: items.{earlier.line - 1} gives the same match to another team, and decides")
    if bad:
        raise _refused(bad[:NAMED_MAX], len(bad))


def _refused(named: list[str], count: int) -> ApiError:
    more = f"; and {count - len(named)} more" if count > len(named) else ""
    return ApiError(400, f"nothing was changed: {'; '.join(named)}{more}", "correct these rows and send all", "items")


def _rate(row: dict[str, Any], line: int) -> Rate:
    start, end = row.pop("valid_from"), row.pop("valid_to")
    return Rate(
        **row | {"usd_per_gpu_hour": Decimal(row["usd_per_gpu_hour"])},
        valid_from_us=_moment(start, "valid_from"),
        valid_to_us=None if end is None else _moment(end, "valid_to"),
        line=line,
    )


def _moment(text: str, name: str) -> int:
    try:
        return parse_rfc3339(text)
    except (ValueError, OverflowError):
        raise ValueError(f"{name} {text[:50]!r} is not an RFC 3339 time") from None


def _rate_row(rate: Rate) -> dict[str, Any]:
    return {
        "gpu_model": rate.gpu_model,
        "pricing": rate.pricing,
        "usd_per_gpu_hour": f"{rate.usd_per_gpu_hour:f}",
        "valid_from": rfc3339(rate.valid_from_us),
        "valid_to": None if rate.valid_to_us is None else rfc3339(rate.valid_to_us),
        "cluster": rate.cluster,
        "pool": rate.pool,
        "mig_profile": rate.mig_profile,
        "currency": rate.currency,
    }
