"""What the routes share: the service, windows, documented errors, an answer of a dict."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Any, cast

from fastapi import Depends, Query, Request
from pydantic_core import to_json
from starlette.responses import Response

from gpuwatch.api.errors import ApiError
from gpuwatch.api.etags import versioned
from gpuwatch.api.schema.common import Error
from gpuwatch.core.clock import MINUTE_US, WINDOW_HELP, Window, parse_rfc3339, parse_window, rfc3339
from gpuwatch.core.errors import UsageError

if TYPE_CHECKING:
    from gpuwatch.service.service import Service

PREFIX = "/api/v1"
NAME_MAX = 256
"""Characters of a name in a parameter: a team, a cluster, a job."""
WINDOW_MAX = 100


async def service_of(request: Request) -> Service:
    """The service behind the application. Not a plain function: those wait for a thread, which questions may hold."""
    return cast("Service", request.app.state.service)


def errors(*statuses: int) -> dict[int | str, dict[str, Any]]:
    """OpenAPI's `responses` for statuses that a route answers in the error shape, in addition to those of every route."""
    every = {400, 401, 403, 408, 413, 414, 429, 431, 500, 503, *statuses}
    return {status: {"model": Error} for status in sorted(every)}


def answer(content: Any, status: int = 200, version: object = None) -> Response:
    """JSON of a dict. NaN and infinity become null: they are no JSON. `version`: that of the list it shows or has set."""
    body = to_json(content, inf_nan_mode="null")
    headers = None if version is None else {"ETag": versioned(body, version)}
    return Response(body, status, headers, media_type="application/json")


def minute_of(now_us: int) -> int:
    """The start of the minute: answers are as of whole minutes, so that all who ask within one share the answer."""
    return now_us // MINUTE_US * MINUTE_US


def window_of(text: str, now_us: int) -> Window:
    """The window of a parameter, a rolling one up to the last whole minute; ApiError 400 naming `window`."""
    try:
        found = parse_window(text, minute_of(now_us))
        words(found)
    except UsageError as error:
        raise ApiError(400, str(error), field="window") from error
    except (OverflowError, ValueError) as error:
        raise ApiError(400, f"window {text!r}: outside the years 1 to 9999", field="window") from error
    return found


def instant_of(text: str) -> int:
    """The microseconds of the parameter `at`; ApiError 400 naming it."""
    try:
        found = parse_rfc3339(text)
        if found < 0:
            raise ValueError("before 1970")
        Window(found, found + 1)
    except (ValueError, OverflowError, UsageError) as error:
        raise ApiError(400, f"at {text!r}: {error}", "give an RFC 3339 time: 2026-11-21T02:08:29Z", "at") from error
    return found


def words(window: Window) -> dict[str, str]:
    """A window as JSON has it."""
    return {"start": rfc3339(window.start_us), "end": rfc3339(window.end_us)}


def split(values: list[str] | None) -> list[str]:
    """`a,b` and repeated parameters as one list without repeats."""
    return list(dict.fromkeys(part.strip() for value in values or () for part in value.split(",") if part.strip()))


def seen(teams: tuple[str, ...] | None, asked: list[str]) -> list[str] | None:
    """The teams whose rows an answer may have: those of the token, of them those asked for; None for all."""
    if not asked:
        return None if teams is None else list(teams)
    return asked if teams is None else [team for team in asked if team in teams]


Svc = Annotated[Any, Depends(service_of)]
WindowText = Annotated[str, Query(alias="window", max_length=WINDOW_MAX, description=WINDOW_HELP, examples=["7d"])]
Name = Annotated[str | None, Query(min_length=1, max_length=NAME_MAX)]
Names = Annotated[list[str] | None, Query(max_length=100)]
