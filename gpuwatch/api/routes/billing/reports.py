"""Weekly reports as files, and who gets them by e-mail."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Any, Literal

from anyio import to_thread
from fastapi import APIRouter, Query, Request
from starlette.responses import Response

from gpuwatch.api.auth import Access, Admin, FleetReader, Reader
from gpuwatch.api.bodies import json_body, request_body
from gpuwatch.api.card_bodies import replaced
from gpuwatch.api.common import PREFIX, WINDOW_MAX, Name, Svc, answer, errors, window_of
from gpuwatch.api.errors import ApiError
from gpuwatch.api.etags import Expected
from gpuwatch.api.paging import CursorText, Limit, decode, page, question
from gpuwatch.api.schema.billing.reports import FormatItems, RecipientItems, RecipientsBody
from gpuwatch.api.schema.common import Replaced
from gpuwatch.core.clock import DAY_US, WINDOW_HELP, rfc3339
from gpuwatch.core.errors import UsageError
from gpuwatch.policy.known_names import team_doubts, team_names
from gpuwatch.report.files import ZIP_TYPE, zipped
from gpuwatch.report.format_registry import chosen_formats, format_names, report_formats

BINARY = {"schema": {"type": "string", "format": "binary"}}
FILES: dict[str, Any] = {
    form.media_type.partition(";")[0]: {"schema": {"type": "string"}} if form.is_text else BINARY
    for form in report_formats().values()
} | {ZIP_TYPE: BINARY}
if TYPE_CHECKING:
    FormatName = str
else:
    FormatName = Literal[(*format_names(), "zip")]
DAYS_MAX = 92
"""Days of a report that is of no week or month."""
WEEK = r"^(\d{4}-(W\d{2}|\d{2})|month)$"
SANDBOX = "default-src 'none'; style-src 'unsafe-inline'; img-src data:; sandbox"
"""What a browser may do with a report's page: show it."""

router = APIRouter(prefix=PREFIX, tags=["reports"])


@router.get(
    "/reports/weekly",
    response_class=Response,
    responses={**errors(404), 200: {"content": FILES}},
    summary="A weekly report as a file",
)
def weekly(
    access: Reader,
    service: Svc,
    week: Annotated[
        str | None,
        Query(
            pattern=WEEK,
            description="An ISO week, or a month; default: the last week with 6 full days of data. `month`: the last month with 24, or the one with most data.",
        ),
    ] = None,
    window: Annotated[
        str | None,
        Query(max_length=WINDOW_MAX, description=f"Any window of at most 92 days instead of a week. {WINDOW_HELP}"),
    ] = None,
    team: Name = None,
    format: Annotated[
        FormatName,
        Query(description="zip: every file of the fleet and of all teams, or those of `team`."),
    ] = "html",
    formats: Annotated[
        str | None, Query(max_length=100, description="Formats in a zip, comma-separated; default: all.")
    ] = None,
    paper: Annotated[
        Literal["a4", "letter"] | None, Query(description="Paper of the PDF; default: the setting report_paper.")
    ] = None,
) -> Response:
    """The report of a team, or of the fleet. Team-scoped tokens get the reports of their teams only; with one team,
    `team` is optional, and nothing is reported about the requests of other teams. 404: the week has no data, or the
    team has no charges in it.
    """
    from gpuwatch.report.report_window import default_month, default_week, week_window
    from gpuwatch.report.weekly import report_files
    from gpuwatch.report.weekly import weekly as make

    now_us = service.now_us()
    if window is not None:
        week = _span(week, window, now_us)
    elif week is None or week == "month":
        with service.reader() as store:
            week = (default_month if week else default_week)(store, now_us)
    asked = _formats(formats) if format == "zip" else [format]
    if formats is not None and format != "zip":
        raise ApiError(400, "formats: only of format=zip", field="formats")
    teams = _teams(access, team, format == "zip")
    try:
        week_window(week)
    except UsageError as error:
        raise ApiError(400, str(error), field="week") from error
    settings = service.settings
    options: dict[str, Any] = {
        "formats": asked or None,
        "paper": paper or settings.report_paper,
        "method": settings.mig_share_method,
        "bound": access.teams is not None,
    }
    try:
        with service.reader() as store:
            if format == "zip":
                files = make(store, service.state, week, teams, now_us, **options)
            else:
                files = report_files(store, service.state, week, None if teams is None else teams[0], now_us, **options)
    except UsageError as error:
        raise ApiError(404, str(error)) from error
    if format == "zip":
        period = week if window is None else files[0].name.partition("/")[0]
        return _file(zipped(files), f"{period}.zip", ZIP_TYPE)
    form = report_formats()[format]
    return _file(files[0].content, files[0].name.replace("/", "-"), form.media_type, form.inline)


def _span(week: str | None, window: str, now_us: int) -> str:
    """The window of a report that is of no week; ApiError 400 naming what is wrong."""
    if week is not None:
        raise ApiError(400, "window: a report is of a week or of a window: send one of them", field="window")
    span = window_of(window, now_us)
    if span.end_us - span.start_us > DAYS_MAX * DAY_US:
        raise ApiError(400, f"window: longer than {DAYS_MAX} days", "choose a shorter one", "window")
    return f"{rfc3339(span.start_us)},{rfc3339(span.end_us)}"


def _file(content: bytes, name: str, media_type: str, inline: bool = False) -> Response:
    shown = "inline" if inline else "attachment"
    headers = {"Content-Disposition": f'{shown}; filename="gpuwatch-{name}"'}
    if media_type.startswith("text/html"):
        headers["Content-Security-Policy"] = SANDBOX
    return Response(content, media_type=media_type, headers=headers)


@router.get("/reports/formats", response_model=FormatItems, responses=errors(), summary="The formats of a report")
def report_format_items(access: Reader) -> Response:
    """In the order in which pages list them. All are on one page."""
    items = [
        {
            "format": form.name,
            "label": form.label or form.name,
            "about": form.about,
            "suffix": form.suffix,
            "media_type": form.media_type,
            "inline": form.inline,
        }
        for form in report_formats().values()
    ]
    return answer({"items": items, "next": None})


@router.get("/recipients", response_model=RecipientItems, responses=errors(), summary="Recipients of report e-mails")
def recipients(access: FleetReader, service: Svc, limit: Limit = 1000, cursor: CursorText = None) -> Response:
    """Addresses by team; team `*` is the fleet."""
    found = _listed(service, limit, cursor)
    return answer(found, version=found["version"])


@router.put(
    "/recipients",
    response_model=Replaced,
    responses=errors(412, 415),
    openapi_extra=request_body(RecipientsBody),
    summary="Replaces the recipients of report e-mails",
)
async def put_recipients(request: Request, access: Admin, service: Svc, expected: Expected) -> Response:
    """All or nothing: 400 names every bad row. Channels of kind email with the event `report` send to them. `warnings`
    names unknown teams.
    """
    body = await json_body(request, RecipientsBody)
    return await to_thread.run_sync(_replace, service, [row.model_dump() for row in body.items], access.name, expected)


def _replace(service: Any, rows: list[dict[str, Any]], actor: str, expected: frozenset[str] | None) -> Response:
    from gpuwatch.alerts.report_recipients import KIND, replace

    try:
        changed = replace(service.state, rows, actor, "PUT", service.now_us(), expected)
    except UsageError as error:
        raise ApiError(400, str(error), "correct these rows and send all", "items") from error
    with service.reader() as store:
        warnings = team_doubts((str(row["team"]) for row in rows), team_names(store, service.state))
    return replaced(changed, service.state.card_version(KIND), len(rows), warnings)


def _listed(service: Any, limit: int, cursor: str | None) -> dict[str, Any]:
    from gpuwatch.alerts.report_recipients import KIND, Recipients

    version = service.state.card_version(KIND)
    asked = question({"route": "recipients", "version": version})
    rows = sorted(Recipients.read(service.state).rows(), key=lambda row: str(row["team"]))
    chosen, following = page(rows, limit, decode(cursor, asked), asked, lambda row: str(row["team"]))
    return {"items": chosen, "version": version, "next": following}


def _teams(access: Access, team: str | None, several: bool) -> list[str] | None:
    """Whose reports are asked for: None the fleet's (and with it everybody's). What a token may not see does not exist."""
    if access.teams is None:
        return None if team is None else [team]
    if team is not None:
        if team not in access.teams:
            raise ApiError(404, f"report: team {team!r} has no charges that this token may see", field="team")
        return [team]
    if several or len(access.teams) == 1:
        return list(access.teams)
    raise ApiError(400, f"this token sees {len(access.teams)} teams: name one, or ask for format=zip", field="team")


def _formats(text: str | None) -> list[str]:
    asked = [part.strip() for part in (text or "").split(",") if part.strip()]
    try:
        chosen_formats(asked)
    except UsageError as error:
        raise ApiError(400, str(error), field="formats") from error
    return asked
