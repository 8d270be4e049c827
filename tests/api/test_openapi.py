"""The OpenAPI says what the API does: generated requests find no fault, no undeclared status and no other shape."""

from __future__ import annotations

import json
import re

import pytest
import schemathesis
from fastapi.routing import APIRoute
from hypothesis import HealthCheck, Phase, given, seed, settings
from jsonschema import Draft202012Validator
from schemathesis.checks import CheckFunction
from schemathesis.specs.openapi import checks

from gpuwatch.api import app, browse
from gpuwatch.api.bodies import request_body
from gpuwatch.api.schema.common import Strict
from tests.worlds.api import Api

EXAMPLES = 6
CHECKS: tuple[CheckFunction, ...] = (
    schemathesis.checks.not_a_server_error,
    checks.status_code_conformance,
    checks.content_type_conformance,
    checks.response_schema_conformance,
    checks.response_headers_conformance,
)
CONTRACT = {
    "GET /healthz", "GET /readyz", "GET /metrics", "POST /api/v1/write", "POST /api/v1/events", "GET /api/v1/fleet",
    "GET /api/v1/ledger", "GET /api/v1/reconcile", "POST /api/v1/bills", "GET /api/v1/chargeback", "GET /api/v1/slices", "GET /api/v1/findings",
    "GET /api/v1/findings/{key}", "POST /api/v1/findings/{key}/{action}", "GET /api/v1/detectors", "GET /api/v1/jobs",
    "GET /api/v1/detectors/card", "PUT /api/v1/detectors/card", "POST /api/v1/detectors/{rule}/backtest",
    "GET /api/v1/reclaim", "GET /api/v1/audit-card", "GET /api/v1/capacity/plan", "GET /api/v1/capacity/history",
    "GET /api/v1/capacity/stranded",
    "GET /api/v1/jobs/{job_id}", "GET /api/v1/rates", "PUT /api/v1/rates", "GET /api/v1/teams", "PUT /api/v1/teams",
    "GET /api/v1/periods/{name}", "GET /api/v1/periods/{name}/content", "POST /api/v1/periods/{name}/reopen",
    "POST /api/v1/periods/{name}/sign", "GET /api/v1/audit",
    "GET /api/v1/periods", "POST /api/v1/periods", "GET /api/v1/quality", "GET /api/v1/channels",
    "PUT /api/v1/channels", "POST /api/v1/channels/{name}/test", "GET /api/v1/me", "GET /api/v1/queues",
    "GET /api/v1/workloads", "GET /api/v1/topology", "POST /api/v1/otlp/v1/metrics",
    "GET /api/v1/policies", "PUT /api/v1/policies", "POST /api/v1/policies/what-if",
    "GET /api/v1/rates/in-force", "GET /api/v1/fx", "PUT /api/v1/fx", "GET /api/v1/owned", "PUT /api/v1/owned",
    "GET /api/v1/spot", "POST /api/v1/spot", "GET /api/v1/commitments",
    "GET /api/v1/capacity/shapes", "GET /api/v1/charges/{charge}/explain", "POST /api/v1/charges/{charge}/what-if",
    "GET /api/v1/budgets", "GET /api/v1/budgets/set", "PUT /api/v1/budgets",
    "GET /api/v1/decisions/own-vs-cloud", "GET /api/v1/decisions/spot", "GET /api/v1/decisions/right-sizing",
    "GET /api/v1/decisions/consolidation", "GET /api/v1/reports/weekly", "GET /api/v1/reports/formats",
    "GET /api/v1/recipients", "PUT /api/v1/recipients",
    "GET /allocation", "GET /allocation/compute", "GET /allocation/summary", "GET /allocation/compute/summary",
    "GET /allocation/summary/topline", "GET /model/allocation", "GET /model/allocation/compute",
    "GET /model/allocation/summary", "GET /model/allocation/compute/summary", "GET /model/allocation/summary/topline",
}  # fmt: skip
"""Routes of the public contract: none of them may disappear."""


def served() -> list[str]:
    """Every route that OpenAPI describes."""
    routes = [route for router in app._routers() for route in router.routes if isinstance(route, APIRoute)]
    return sorted(
        f"{method} {route.path_format}" for route in routes if route.include_in_schema for method in route.methods
    )


@schemathesis.serializer("application/x-protobuf")
def as_bytes(context: schemathesis.SerializationContext, value: object) -> object:
    """Whatever was generated, as it is: most of it is no snappy, and must be 400."""
    return schemathesis.serializers.Binary(value) if isinstance(value, bytes) else str(value).encode()


@pytest.fixture(scope="module")
def token(filled: Api) -> str:
    return filled.token("admin")


@pytest.fixture(scope="module")
def described(filled: Api) -> schemathesis.BaseSchema:
    return schemathesis.openapi.from_asgi("/api/openapi.json", filled.app)


@pytest.mark.slow
@pytest.mark.parametrize("route", served())
def test_generated_requests_find_no_fault(described: schemathesis.BaseSchema, token: str, route: str) -> None:
    """With the rights of an admin, on a store that has rows."""
    method, path = route.split()
    operation = described[path][method]

    @seed(1)
    @settings(
        max_examples=EXAMPLES,
        deadline=None,
        database=None,
        phases=[Phase.explicit, Phase.generate],
        suppress_health_check=list(HealthCheck),
    )
    @given(case=operation.as_strategy())
    def conforms(case: schemathesis.Case) -> None:
        case.call_and_validate(headers={"Authorization": f"Bearer {token}"}, checks=list(CHECKS))

    conforms()


def test_the_contract_is_served(filled: Api) -> None:
    """Every route of it is described, and every described route is called with generated requests."""
    paths = filled.app.openapi()["paths"]
    found = {f"{method.upper()} {path}" for path, methods in paths.items() for method in methods}

    assert set() == CONTRACT - found
    assert set(served()) == found


def test_every_body_and_answer_has_an_example_that_fits_its_schema(filled: Api) -> None:
    """Also every parameter in a path."""
    document = filled.app.openapi()
    wrong: list[tuple[str, str]] = []
    count = 0
    for path, methods in document["paths"].items():
        for operation in methods.values():
            holders = [a for status, a in operation["responses"].items() if status == "200"]
            for holder in (operation.get("requestBody", {}), *holders):
                content = holder.get("content", {}).get("application/json")
                if content is None:
                    continue
                count += 1
                schema = {**content["schema"], "components": document["components"]}
                errors = list(Draft202012Validator(schema).iter_errors(content["example"]))
                wrong += [(path, error.message[:200]) for error in errors]
            wrong += [
                (path, p["name"]) for p in operation.get("parameters", ()) if p["in"] == "path" and "example" not in p
            ]

    assert [] == wrong
    assert count > 100


def test_examples_have_names_that_people_know(filled: Api) -> None:
    found = filled.app.openapi()["paths"]["/api/v1/findings"]["get"]["responses"]["200"]["content"]["application/json"]
    (finding,) = found["example"]["items"]

    assert ("idle-hoarding", "vision", "alice") == (finding["detector"], finding["team"], finding["user"])
    assert "2026-11-21T02:08:29Z" == finding["started_at"]


def test_the_description_names_its_server_and_when_nothing_changed(filled: Api) -> None:
    document = filled.app.openapi()
    silent = [
        path
        for path, methods in document["paths"].items()
        if methods.get("get", {}).get("responses", {}).get("200", {}).get("content")
        and "304" not in methods["get"]["responses"]
    ]

    assert "/" == document["servers"][0]["url"]
    assert [] == silent


def test_applications_share_routes_and_description(filled: Api) -> None:
    """Analyzing the parameters of every route takes half a second, describing them a whole one."""
    other = app.create_app(filled.service)
    shared = [route for router in app._routers() for route in router.routes]

    assert [] == [route.path for route in shared if route not in other.routes]
    assert filled.app.openapi() is other.openapi()


def test_component_names_are_class_names(filled: Api) -> None:
    """Two models of one name would be called after their modules."""
    assert [] == [name for name in filled.app.openapi()["components"]["schemas"] if "__" in name]


def test_bodies_that_routes_read_themselves_are_described(filled: Api) -> None:
    """Every reference leads to a model."""
    document = filled.app.openapi()
    named = set(re.findall(r'"#/components/schemas/([^"]+)"', json.dumps(document)))

    assert {"FxBody", "ChannelsBody", "PoliciesBody"} <= named
    assert set() == named - set(document["components"]["schemas"])


def test_two_bodies_of_one_name_are_refused() -> None:
    """One would be described as the other."""

    class FxBody(Strict):
        other: int

    with pytest.raises(
        ValueError, match=r"two request bodies are called FxBody: gpuwatch\.api\.schema\.billing\.fx and"
    ):
        request_body(FxBody)


def test_errors_are_ours_in_every_operation(filled: Api) -> None:
    """No trace of the framework's own error shape."""
    document = filled.app.openapi()
    shapes = {
        (path, status)
        for path, methods in document["paths"].items()
        for operation in methods.values()
        for status, answer in operation["responses"].items()
        if status[0] in "45" and "/schemas/Error" not in str(answer) and (path, status) != ("/readyz", "503")
    }

    assert set() == shapes
    assert "HTTPValidationError" not in document["components"]["schemas"]
    assert ["/api/v1/detectors/{rule}/backtest"] == [
        path for path, methods in document["paths"].items() for o in methods.values() if "422" in o["responses"]
    ]


def test_every_route_asks_who_is_there(filled: Api) -> None:
    """A route that forgets is open to everybody: only these may be."""
    signing_in = {"GET /api/v1/session", "POST /api/v1/session/sso", "POST /api/v1/session/sso/back"}
    free = {"GET /healthz", "GET /readyz", "GET /", "GET /metrics"} | signing_in
    asking = {"anyone", "reader", "tester", "fleet_reader", "admin", "ingester"}
    silent = set()
    for router in app._routers():
        for route in router.routes:
            assert isinstance(route, APIRoute)
            calls = {getattr(d.call, "__name__", "") for d in route.dependant.dependencies}
            if not calls & asking:
                silent |= {f"{method} {route.path}" for method in route.methods}

    assert free == silent


def test_the_docs_page_loads_nothing_from_elsewhere(filled: Api) -> None:
    """It works without a network, and tells nobody that it was opened."""
    page, style, script = (filled.get(path) for path in ("/docs", "/docs/page.css", "/docs/page.js"))

    assert [200, 200, 200] == [page.status_code, style.status_code, script.status_code]
    assert ["text/html", "text/css", "text/javascript"] == [
        answer.headers["content-type"].split(";")[0] for answer in (page, style, script)
    ]
    assert [] == re.findall(r"(?:https?:)?//[a-z]", browse.PAGE + browse.STYLE + browse.SCRIPT)
    assert "script-src 'self'" in page.headers["content-security-policy"]


def test_the_openapi_needs_no_token(filled: Api, token: str) -> None:
    """It has no data."""
    assert 200 == filled.get("/api/openapi.json", peer="192.0.2.1").status_code
