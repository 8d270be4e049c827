"""The application: routes, limits and the error shape put together."""

from __future__ import annotations

import importlib
import pkgutil
import time
from collections.abc import Callable, Collection
from functools import cache, partial
from typing import TYPE_CHECKING, Any

from fastapi import APIRouter, FastAPI, params
from fastapi._compat import field_annotation_is_sequence
from fastapi.dependencies.utils import get_flat_params
from fastapi.openapi.utils import get_openapi
from fastapi.routing import APIRoute
from pydantic.json_schema import models_json_schema
from starlette.requests import Request
from starlette.responses import JSONResponse, Response

from gpuwatch.api import browse, errors
from gpuwatch.api import routes as packaged
from gpuwatch.api.answers import Answers
from gpuwatch.api.auth import Guard
from gpuwatch.api.bodies import body_models
from gpuwatch.api.codes import CODES, TEAM_SCOPE
from gpuwatch.api.envelope import Envelope
from gpuwatch.api.etags import Tagged
from gpuwatch.api.examples import add_examples
from gpuwatch.api.forward import Forwarder
from gpuwatch.api.limits import BODY_SECONDS_MAX, Bounds, Clock, InFlight
from gpuwatch.api.shares import backtest_turns, decoding_turns, question_turns
from gpuwatch.api.turns import Released

if TYPE_CHECKING:
    from gpuwatch.service.service import Service

TITLE = "gpuwatch"
OPENAPI = "/api/openapi.json"
ABOUT = """Where the GPU-seconds of a fleet went. Times are RFC 3339 UTC, ratios 0..1, money is decimal text with a separate
currency. Lists return `items` and `next`; errors return `error` with `code`, `message`, `hint` and optionally `field`."""
OPEN = frozenset({"/healthz", "/readyz"})
"""Paths that need no token."""


def create_app(
    service: Service,
    *,
    hosts: Collection[str] = (),
    clock: Clock = time.monotonic,
    body_seconds: float = BODY_SECONDS_MAX,
) -> FastAPI:
    """The API over a service. `hosts` are further names, besides localhost, that a Host header of a loopback
    request may have: those that the server is bound to. `clock` gives seconds, for rates of requests.
    """
    app = FastAPI(
        title=TITLE,
        version=service.version,
        description=ABOUT,
        openapi_url=None,
        docs_url=None,
        redoc_url=None,
        redirect_slashes=False,
        telemetry={"tracing": False, "metrics": False},
    )
    in_flight = InFlight()
    app.state.questions, app.state.backtests = question_turns(service), backtest_turns(service)
    app.state.decoding = decoding_turns()
    app.state.service = service
    app.state.answers = Answers()
    app.state.guard = Guard(service, clock, hosts)
    app.state.in_flight = in_flight
    app.state.forwarder = None if service.routing is None else Forwarder(service.routing)
    found = _routers()
    app.state.methods = [(route.path_regex, route.methods) for router in found for route in _own(router)]
    app.state.parameters = _parameters()
    # The routes themselves: include_router would analyze the parameters of each a second time.
    for router in found:
        app.router.routes.extend(router.routes)
    app.router.routes.extend(browse.routes())
    app.openapi = partial(_described, service.version)  # type: ignore[method-assign]

    def openapi(request: Request) -> Response:
        return JSONResponse(app.openapi())

    app.add_route(OPENAPI, openapi, include_in_schema=False)
    errors.install(app)
    # The last one added is the outermost.
    app.add_middleware(Tagged)
    app.add_middleware(Released)
    app.add_middleware(Bounds, in_flight=in_flight, body_seconds=body_seconds)
    app.add_middleware(Envelope, served=service.telemetry.served)
    return app


@cache
def _routers() -> tuple[APIRouter, ...]:
    """The `router` of every module below routes/, by the module's own name."""
    found = pkgutil.walk_packages(packaged.__path__, prefix=f"{packaged.__name__}.")
    names = sorted((module.name for module in found if not module.ispkg), key=lambda name: name.rpartition(".")[2])
    modules = (importlib.import_module(name) for name in names)
    return tuple(module.router for module in modules)


def _own(router: APIRouter) -> list[APIRoute]:
    return [route for route in router.routes if isinstance(route, APIRoute)]


@cache
def _parameters() -> dict[Callable[..., Any], dict[str, bool]]:
    """Names that the query of each route may have, and whether one may stand there several times."""
    fields = {route.endpoint: get_flat_params(route.dependant) for router in _routers() for route in _own(router)}
    return {
        endpoint: {
            field.alias: field_annotation_is_sequence(field.field_info.annotation)
            for field in found
            if isinstance(field.field_info, params.Query)
        }
        for endpoint, found in fields.items()
    }


@cache
def _described(version: str) -> dict[str, Any]:
    """OpenAPI with our errors instead of the framework's, the bodies that routes read themselves, and the token.

    It is made on the first request, because that takes a second, and is the same for every application.
    """
    routes = [route for router in _routers() for route in router.routes]
    document = get_openapi(title=TITLE, version=version, description=ABOUT, routes=routes)
    parts: dict[str, Any] = document.setdefault("components", {})
    _, definitions = models_json_schema(
        [(model, "validation") for model in body_models()], ref_template="#/components/schemas/{model}"
    )
    schemas: dict[str, Any] = parts.setdefault("schemas", {})
    schemas |= {name: found for name, found in definitions["$defs"].items() if name not in schemas}
    for name in ("HTTPValidationError", "ValidationError"):
        schemas.pop(name, None)
    parts["securitySchemes"] = {"token": {"type": "http", "scheme": "bearer"}}
    for path, methods in document["paths"].items():
        for method, operation in methods.items():
            _complete(path, operation, reads=method == "get")
    add_examples(document)
    document["servers"] = [{"url": "/", "description": "The server that gave this description."}]
    return document


def _complete(path: str, operation: dict[str, Any], reads: bool) -> None:
    responses: dict[str, dict[str, Any]] = operation["responses"]
    if "HTTPValidationError" in str(responses.get("422")):
        del responses["422"]
    for status, answer in responses.items():
        if status[0] in "45":
            code = CODES.get(int(status))
            answer["description"] = code[0].replace("_", " ") if code else "error"
        if status == "403":
            answer["description"] += (
                f"; code `{TEAM_SCOPE}`: the answer would depend on teams that the token does not cover"
            )
    if responses.get("200", {}).get("content") and reads:
        responses["304"] = {"description": "not modified: `If-None-Match` has the current ETag"}
    if path not in OPEN:
        operation["security"] = [{"token": []}, {}]
