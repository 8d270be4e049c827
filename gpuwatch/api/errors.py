"""The one error shape of the API: {"error": {"code", "message", "hint", "field"?}}."""

from __future__ import annotations

import errno
import json
import logging
from collections.abc import Mapping
from typing import Any

from fastapi import FastAPI, Request
from fastapi.exceptions import RequestValidationError
from pydantic import ValidationError
from starlette.exceptions import HTTPException
from starlette.responses import JSONResponse, Response

from gpuwatch.api.codes import CODES, TEAM_SCOPE
from gpuwatch.billing.periods.repository import PeriodConflict
from gpuwatch.core.errors import (
    ChangedMeanwhile,
    GpuwatchError,
    Misdirected,
    NotHolder,
    SourceUnreachable,
    StoreBusy,
    StoreError,
    UnreadableInput,
    UsageError,
)
from gpuwatch.findings.custom_rules import RuleFailed
from gpuwatch.store.connection import OutOfMemory

BUSY_RETRY_S = 2
"""Retry-After when the queue is full."""
HOLDER = "Gpuwatch-Holder"
"""The header with the address of the process that has the lease."""
STORE_RETRY_S = 30
"""Retry-After when the disk is full or a database does not respond."""
MAX_SHOWN = 200
"""Characters of an input that a message repeats."""
MAX_MESSAGE = 20_000

_log = logging.getLogger("gpuwatch.api")


OPENCOST = ("/allocation", "/model/allocation")
"""How the paths begin that OpenCost's clients ask."""


class ApiError(HTTPException):
    """An answer that is an error: status, one sentence, what to do, and the parameter or body field it is about."""

    def __init__(
        self,
        status: int,
        message: str,
        hint: str | None = None,
        field: str | None = None,
        headers: Mapping[str, str] | None = None,
        code: str | None = None,
    ) -> None:
        super().__init__(status, message, dict(headers or {}))
        self.hint = hint
        self.field = field
        self.code = code


class TeamScope(ApiError):
    """403 `team_scope`: the answer would depend on rows of teams that the token does not cover."""

    def __init__(self, message: str, field: str | None = None) -> None:
        super().__init__(403, message, "ask with a token that is not bound to teams", field, code=TEAM_SCOPE)


def body_of(
    status: int, message: str, hint: str | None = None, field: str | None = None, code: str | None = None
) -> dict[str, Any]:
    """The JSON of an error."""
    standard, default = CODES.get(status, ("error", "see /docs"))
    error = {"code": code or standard, "message": message[:MAX_MESSAGE], "hint": hint or default}
    return {"error": error if field is None else error | {"field": field}}


def response(error: ApiError, path: str = "") -> JSONResponse:
    """An error response; OpenCost's paths add OpenCost's fields."""
    content = body_of(error.status_code, str(error.detail), error.hint, error.field, error.code)
    if path.startswith(OPENCOST):
        content = {"code": error.status_code, "message": f"Error: {content['error']['message']}"} | content
    return JSONResponse(content, error.status_code, error.headers)


def translated(error: GpuwatchError) -> ApiError:
    """Our own errors by what the sender can do about them: 400 never send again, 503 send again later."""
    message = " ".join(str(error).split()).removeprefix("--")
    if isinstance(error, NotHolder):
        known = {HOLDER: error.address} if error.address else {}
        return ApiError(503, message, headers={"Retry-After": str(BUSY_RETRY_S)} | known, code="not_holder")
    if isinstance(error, StoreBusy):
        return ApiError(503, message, headers={"Retry-After": str(BUSY_RETRY_S)}, code="busy")
    if isinstance(error, Misdirected):
        return ApiError(421, message)
    if isinstance(error, StoreError | SourceUnreachable):
        return ApiError(503, message, headers={"Retry-After": str(STORE_RETRY_S)})
    if isinstance(error, PeriodConflict):
        return ApiError(409, message)
    if isinstance(error, ChangedMeanwhile):
        return ApiError(412, f"nothing was changed: {message}")
    if isinstance(error, UsageError | UnreadableInput):
        return ApiError(400, message, field=_field_of(message))
    if isinstance(error, RuleFailed):
        return ApiError(422, message, field="rule")
    _log.error("%s: %s", type(error).__name__, message)
    return ApiError(500, "the request could not be answered")


def invalid(errors: list[Any], body: bool = False) -> ApiError:
    """The first of pydantic's complaints, in words, with the name of what it is about."""
    first = errors[0] if errors else {"loc": (), "msg": "not valid"}
    path = [str(part) for part in first["loc"] if body or part not in ("query", "path", "header", "body")]
    field = ".".join(path) or None
    more = f" (and {len(errors) - 1} more)" if len(errors) > 1 else ""
    about = f"{field}: " if field else ""
    return ApiError(400, f"{about}{first['msg'][:MAX_SHOWN]}{more}", field=field)


def install(app: FastAPI) -> None:
    """Makes every error of an app have the shape."""
    app.add_exception_handler(HTTPException, _http)
    app.add_exception_handler(RequestValidationError, _validation)
    app.add_exception_handler(ValidationError, _validation)
    app.add_exception_handler(GpuwatchError, _ours)
    for kind in (MemoryError, OutOfMemory, RuntimeError, OSError):
        app.add_exception_handler(kind, _exhausted)


async def _http(request: Request, error: Exception) -> Response:
    assert isinstance(error, HTTPException)
    if isinstance(error, ApiError):
        return response(error, request.url.path)
    message = str(error.detail)
    headers = dict(error.headers or {})
    if error.status_code == 404:
        message = f"{request.url.path[:MAX_SHOWN]}: there is no such route"
    if error.status_code == 405:
        allowed = ", ".join(sorted(_methods(request)))
        headers = {"Allow": allowed}
        message = f"{request.method[:20]} {request.url.path[:MAX_SHOWN]}: use {allowed}"
    return response(ApiError(error.status_code, message, headers=headers), request.url.path)


async def _validation(request: Request, error: Exception) -> Response:
    errors = error.errors() if isinstance(error, RequestValidationError | ValidationError) else []
    return response(invalid(list(errors), body=isinstance(error, ValidationError)), request.url.path)


async def _ours(request: Request, error: Exception) -> Response:
    assert isinstance(error, GpuwatchError)
    return response(translated(error), request.url.path)


async def _exhausted(request: Request, error: Exception) -> Response:
    """503 in words where the machine, not the request, is the reason. Anything else is a fault of ours and goes on."""
    words = lacking(error)
    if words is None:
        raise error
    _log.error("%s %s: %s: %s", request.method, request.url.path, words, " ".join(str(error).split())[:MAX_SHOWN])
    hint = "send the request again later; ask for a shorter window or raise the limits of the process"
    return response(ApiError(503, words, hint, headers={"Retry-After": str(STORE_RETRY_S)}), request.url.path)


def lacking(error: BaseException) -> str | None:
    """What the process has run out of; None if the error has another reason."""
    if isinstance(error, MemoryError | OutOfMemory) or (isinstance(error, OSError) and error.errno == errno.ENOMEM):
        return "the server is out of memory"
    if isinstance(error, RuntimeError) and "can't start new thread" in str(error):
        return "the server cannot start another thread"
    if isinstance(error, OSError) and error.errno in (errno.EMFILE, errno.ENFILE):
        return "the server cannot open another file"
    return None


def _methods(request: Request) -> set[str]:
    """Every method that some route of this path takes; Starlette names those of the first only."""
    path = request.url.path
    allowed: set[str] = {
        method for regex, methods in request.app.state.methods if regex.match(path) for method in methods
    }
    return (allowed or {"GET"}) | ({"HEAD"} if "GET" in (allowed or {"GET"}) else set())


def _field_of(message: str) -> str | None:
    """The parameter that a UsageError of the core begins with: `by x: ...`, `window 'x': ...`."""
    first = message.split(" ", 1)[0].rstrip(":")
    return first if first in _FIELDS else None


_FIELDS = frozenset(
    {
        "by",
        "window",
        "detector",
        "severity",
        "state",
        "cursor",
        "sort",
        "step",
        "reason",
        "until",
        "period",
        "format",
        "provider",
        "kind",
    }
)


def encoded(status: int, message: str) -> tuple[bytes, list[tuple[bytes, bytes]]]:
    """Body and headers of an error for code below the framework."""
    body = json.dumps(body_of(status, message)).encode()
    return body, [(b"content-type", b"application/json"), (b"content-length", str(len(body)).encode())]
