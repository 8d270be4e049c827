"""Rate cards and ownership rules: read, and replaced whole."""

from __future__ import annotations

from decimal import Decimal
from typing import Annotated, Any, cast

from anyio import to_thread
from fastapi import APIRouter, Query, Request
from starlette.responses import Response

from gpuwatch.api.auth import Access, Admin, FleetReader, Reader
from gpuwatch.api.bodies import expect, json_body, request_body
from gpuwatch.api.card_bodies import KINDS, SOURCE, from_csv, from_json, listed, refused, replaced
from gpuwatch.api.common import PREFIX, Svc, WindowText, errors, window_of
from gpuwatch.api.etags import Expected
from gpuwatch.api.paging import CursorText, Limit
from gpuwatch.api.proposed_cards import compared
from gpuwatch.api.schema.billing.policies import WhatIf
from gpuwatch.api.schema.billing.rates import Rates, RatesBody, RatesInForce, TeamRules, TeamsBody
from gpuwatch.api.schema.common import Replaced
from gpuwatch.billing.proposed import Proposed
from gpuwatch.core.clock import Window, parse_rfc3339
from gpuwatch.core.errors import UsageError
from gpuwatch.policy.known_names import team_names
from gpuwatch.policy.ownership import Decided, TeamRule, parse_teams
from gpuwatch.policy.repository import load_team_rules, replace_team_rules
from gpuwatch.quality.rate_checks import models_without_rate, names_of, rate_warnings, team_warnings, two_ways
from gpuwatch.rates import in_force
from gpuwatch.rates.card import Rate, assuming_spot, parse_rates, price_of, shown
from gpuwatch.rates.csv_table import NAMED_MAX, RowsRefused
from gpuwatch.rates.models import unknown_profile
from gpuwatch.rates.node_split import COLUMNS, node_of
from gpuwatch.rates.repository import load_rates

KNOWN_MAX = 10_000
"""Teams that a response lists in `known`."""
Known = Annotated[bool, Query(description="Whether `known` lists the teams of rules and runs; otherwise it is null.")]

router = APIRouter(prefix=PREFIX, tags=["prices and owners"])


@router.get("/rates", response_model=Rates, responses=errors(), summary="The rate card in force")
def rates(access: Reader, service: Svc, limit: Limit = 1000, cursor: CursorText = None) -> Response:
    """Prices per whole GPU-hour and their validity. Every reader may see them: they show no team's use."""
    version = service.state.card_version("rates")  # first: who replaces this version must have seen at least its rows
    return listed([shown(rate) for rate in load_rates(service.state)], version, limit, cursor)


@router.get("/rates/in-force", response_model=RatesInForce, responses=errors(), summary="Every rate in force")
def rates_in_force(access: Reader, service: Svc, limit: Limit = 1000, cursor: CursorText = None) -> Response:
    """Rates from the rate card, owned hardware and spot prices; `card` names the source."""
    items = [{"card": card} | shown(rate) for card, kept in in_force.by_card(service.state).items() for rate in kept]
    return listed(items, sum(in_force.versions(service.state).values()), limit, cursor)


@router.put(
    "/rates",
    response_model=Replaced,
    responses=errors(412, 415),
    openapi_extra=request_body(RatesBody, "text/csv"),
    summary="Replaces the rate card",
)
async def put_rates(
    request: Request, access: Admin, service: Svc, expected: Expected, assume_spot: bool = False
) -> Response:
    """JSON `items`, or the CSV of rates.csv. All or nothing: 400 names every bad row. Charges are priced again. A rate
    for an unknown model is kept; `warnings` names it. With `assume_spot`, spot rates price all GPUs of their scope, not
    only known spot capacity.
    """
    kept = await _rates_of(request)
    kept = assuming_spot(kept) if assume_spot else kept
    return await to_thread.run_sync(_replace_rates, service, kept, access.name, expected)


@router.post(
    "/rates/what-if",
    response_model=WhatIf,
    responses=errors(415),
    openapi_extra=request_body(RatesBody, "text/csv"),
    summary="What teams would pay under another rate card",
)
async def ask_rates(request: Request, access: FleetReader, service: Svc, window: WindowText = "lastmonth") -> Response:
    """The body is a card as for PUT; nothing is changed. Returns each team's cost now and under the card, by current data
    and policies; `closed` lists the closed periods in the window, whose bills stay and get corrections.
    """
    kept, span = await _rates_of(request), window_of(window, service.now_us())
    return await to_thread.run_sync(_ask_rates, service, kept, span)


@router.get("/teams", response_model=TeamRules, responses=errors(), summary="The ownership rules in force")
def teams(
    access: Reader, service: Svc, known: Known = False, limit: Limit = 1000, cursor: CursorText = None
) -> Response:
    """In the order in which they apply. Team-scoped tokens see only the rules and names of their teams."""
    version = service.state.card_version("teams")
    items = [
        {"match_kind": rule.match_kind, "match": rule.match, "team": rule.team}
        for rule in load_team_rules(service.state)
        if access.teams is None or rule.team in access.teams
    ]
    return listed(items, version, limit, cursor, known=_known(access, service, known))


@router.put(
    "/teams",
    response_model=Replaced,
    responses=errors(412, 415),
    openapi_extra=request_body(TeamsBody, "text/csv"),
    summary="Replaces the ownership rules",
)
async def put_teams(request: Request, access: Admin, service: Svc, expected: Expected) -> Response:
    """JSON `items`, or the CSV of teams.csv, in the order in which rules apply. All or nothing. Refused: a rule that
    can never apply because an earlier one matches everything it does, and two wildcard rules that give the same
    existing name to two teams where neither is more specific. `warnings` names rules that match no run.
    """
    kept, row = await _rules_of(request)
    return await to_thread.run_sync(_replace_teams, service, kept, access.name, row, expected)


@router.post(
    "/teams/what-if",
    response_model=WhatIf,
    responses=errors(415),
    openapi_extra=request_body(TeamsBody, "text/csv"),
    summary="What teams would pay under other ownership rules",
)
async def ask_teams(request: Request, access: FleetReader, service: Svc, window: WindowText = "lastmonth") -> Response:
    """The body has rules as for PUT; nothing is changed. Returns what moves between teams, as for rates."""
    kept, row = await _rules_of(request)
    span = window_of(window, service.now_us())
    return await to_thread.run_sync(_ask_teams, service, kept, row, span)


async def _rates_of(request: Request) -> list[Rate]:
    if expect(request, KINDS) == "text/csv":
        return await from_csv(request, parse_rates)
    body = cast(RatesBody, await json_body(request, RatesBody))
    return from_json([row.model_dump() for row in body.items], _rate)


async def _rules_of(request: Request) -> tuple[list[TeamRule], str]:
    """The rules of a body, and how it names a row."""
    if expect(request, KINDS) == "text/csv":
        return await from_csv(request, parse_teams), "line {}"
    body = cast(TeamsBody, await json_body(request, TeamsBody))
    kept = from_json([row.model_dump() for row in body.items], lambda row, line: TeamRule(**row, line=line))
    return _decided(kept), "items.{}"


def _ask_rates(service: Any, kept: list[Rate], span: Window) -> Response:
    try:
        cards = in_force.checked_rates(service.state, kept)
    except UsageError as error:
        raise refused(error) from error
    return compared(service, Proposed(cards), span)


def _ask_teams(service: Any, kept: list[TeamRule], row: str, span: Window) -> Response:
    with service.reader() as store:
        _check_two_ways(store, kept, row)
    return compared(service, Proposed(rules=kept), span)


def _check_two_ways(store: Any, kept: list[TeamRule], row: str) -> None:
    if found := two_ways(kept, names_of(store)):
        raise refused(RowsRefused([_two_ways(row, *one) for one in found], len(found)))


def _known(access: Access, service: Any, wanted: bool) -> list[str] | None:
    if not wanted:
        return None
    with service.reader() as store:
        found = sorted(team_names(store, service.state))
    return [team for team in found if access.teams is None or team in access.teams][:KNOWN_MAX]


def _replace_rates(service: Any, kept: list[Rate], actor: str, expected: frozenset[str] | None) -> Response:
    changed = in_force.set_rates(service.state, kept, actor, SOURCE, service.now_us(), expected)
    if changed:
        service.reprice()
    with service.reader() as store:
        warnings = [*rate_warnings(store, kept), *models_without_rate(store, service.state)]
    return replaced(changed, service.state.card_version("rates"), len(kept), warnings)


def _replace_teams(
    service: Any, kept: list[TeamRule], actor: str, row: str, expected: frozenset[str] | None
) -> Response:
    with service.reader() as store:
        _check_two_ways(store, kept, row)
    changed = replace_team_rules(service.state, kept, actor, SOURCE, service.now_us(), expected)
    if changed:
        service.reprice()
    with service.reader() as store:
        warnings = team_warnings(store, kept)
    return replaced(changed, service.state.card_version("teams"), len(kept), warnings)


def _two_ways(row: str, name: str, first: TeamRule, other: TeamRule) -> str:
    at, by = (row.format(rule.line - (1 if row.startswith("items") else 0)) for rule in (other, first))
    what = f"{first.match_kind} {name!r} is matched two ways, also by {by} ({first.match} to {first.team})"
    return f"{at}: {what}; put a rule for what both match before them"


def _decided(rules: list[TeamRule]) -> list[TeamRule]:
    """Every rule can decide, as in a file."""
    kept, bad = Decided(), []
    for place, rule in enumerate(rules):
        if (earlier := kept.add(rule)) is not None:
            same = "the same match" if earlier.match == rule.match else "all that this one matches"
            conflict = "is the same rule" if earlier == rule else f"gives {same} to another team, and takes precedence"
            bad.append(f"items.{place}: items.{earlier.line - 1} {conflict}")
    if bad:
        raise refused(RowsRefused(bad[:NAMED_MAX], len(bad)))
    return list(kept.rules.values())


def _rate(row: dict[str, Any], line: int) -> Rate:
    start, end = row.pop("valid_from"), row.pop("valid_to")
    node = node_of({name: row.pop(name) for name in COLUMNS})
    amounts = ("list_price", "contracted_price")
    rate = Rate(
        **row
        | {name: Decimal(row[name]) for name in amounts if row[name] is not None}
        | {"usd_per_gpu_hour": price_of(row["usd_per_gpu_hour"], node), "node": node},
        valid_from_us=_moment(start, "valid_from"),
        valid_to_us=None if end is None else _moment(end, "valid_to"),
        line=line,
    )
    if problem := unknown_profile(rate.gpu_model, rate.mig_profile):
        raise ValueError(problem)
    return rate


def _moment(text: str, name: str) -> int:
    try:
        return parse_rfc3339(text)
    except (ValueError, OverflowError):
        raise ValueError(f"{name} {text[:50]!r} is not an RFC 3339 time") from None
