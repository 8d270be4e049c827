"""GET /capacity/plan, /history and /stranded: what is asked, what is answered, and for whom."""

from __future__ import annotations

from typing import Any

import pytest

from gpuwatch.api.routes.capacity.plan import History, Plans, StrandedByJob
from gpuwatch.core.clock import rfc3339
from tests.worlds.api import Api
from tests.worlds.world import HOUR, us

MODELS = {"plan": Plans, "history": History, "stranded": StrandedByJob}
WINDOW = f"window={rfc3339(us(0))},{rfc3339(us(48 * HOUR))}"


def ask(api: Api, route: str, query: str = "") -> dict[str, Any]:
    response = api.get(f"/api/v1/capacity/{route}?{query}", token=api.service.local_secret)
    assert 200 == response.status_code, response.text
    MODELS[route].model_validate(response.json())
    return dict(response.json())


@pytest.mark.parametrize("route", MODELS)
def test_nothing_is_known_of_a_service_without_data(bare: Api, route: str) -> None:
    assert [] == ask(bare, route)["items"]


@pytest.mark.parametrize(
    "route, query",
    [
        ("plan", "at=yesterday"),
        ("plan", "shape="),
        ("plan", "shape=many"),
        ("plan", "days=6"),
        ("history", "step=1m"),
        ("history", "window=then"),
        ("history", "cursor=abc"),
        ("stranded", "window=then"),
        ("stranded", "limit=0"),
        ("stranded", "cursor=abc"),
    ],
)
def test_what_cannot_be_asked(bare: Api, route: str, query: str) -> None:
    response = bare.get(f"/api/v1/capacity/{route}?{query}", token=bare.service.local_secret)

    assert 400 == response.status_code
    assert response.json()["error"]["message"]


@pytest.mark.parametrize("route", MODELS)
def test_a_token_bound_to_teams_sees_nothing_of_it(books: Api, route: str) -> None:
    """What is free is nobody's."""
    assert 403 == books.get(f"/api/v1/capacity/{route}", token=books.token("read", "red")).status_code
    assert 200 == books.get(f"/api/v1/capacity/{route}", token=books.token("read")).status_code


def test_a_shape_that_fits_on_no_node_of_the_fleet_is_planned_nowhere(filled: Api) -> None:
    assert [] == ask(filled, "plan", "shape=64")["items"]


def test_where_nothing_was_free_there_is_no_history(filled: Api) -> None:
    assert {"items": [], "next": None} == ask(filled, "history", WINDOW)


def test_a_token_bound_to_teams_tries_no_layouts(filled: Api) -> None:
    answer = filled.get("/api/v1/what-if/mig", token=filled.token("read", "red"))

    assert (403, "team_scope") == (answer.status_code, answer.json()["error"]["code"])
    assert 200 == filled.get("/api/v1/what-if/mig", token=filled.token("read")).status_code
