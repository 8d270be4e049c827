"""GET /capacity/shapes: what could be placed now, in pages, at an instant, and for whom."""

from __future__ import annotations

from typing import Any

import pytest

from gpuwatch.api.paging import Cursor, encode, question
from gpuwatch.api.routes.capacity.capacity import Capacity
from gpuwatch.core.clock import Window, rfc3339
from tests.worlds.api import NOW_US, Api
from tests.worlds.world import H100, HOUR, us

ROUTE = "/api/v1/capacity/shapes"


def ask(api: Api, query: str = "") -> dict[str, Any]:
    response = api.get(f"{ROUTE}?{query}", token=api.service.local_secret)
    assert 200 == response.status_code, response.text
    Capacity.model_validate(response.json())
    return dict(response.json())


def slots(found: dict[str, Any], shape: str) -> list[tuple[Any, ...]]:
    names = ("pool", "node_local", "nvlink_local", "across", "placeable")
    return [tuple(row[name] for name in names) for row in found["items"] if row["shape"] == shape]


def test_nothing_is_known_of_a_service_without_data(bare: Api) -> None:
    found = ask(bare)

    assert ([], [], [], None) == (found["items"], found["clusters"], found["stranded"], found["next"])


ASKED = question({"cluster": None, "at": None, "days": 28})
BEFORE_TIME = Cursor("x", 0, Window(-253_402_300_799_000_000, 5))


@pytest.mark.parametrize(
    "query",
    [
        *("at=yesterday", "at=1960-01-01", "at=9999-12-31T23:59:59-23:59", "cursor=abc"),
        *(f"cursor={encode(BEFORE_TIME, ASKED)}", "limit=0", "days=6", "days=29", "days=x", "where=x"),
    ],
)
def test_what_cannot_be_asked(bare: Api, query: str) -> None:
    response = bare.get(f"{ROUTE}?{query}", token=bare.service.local_secret)

    assert 400 == response.status_code
    assert query.partition("=")[0] == response.json()["error"]["field"]


def test_a_token_bound_to_teams_sees_nothing_of_it(books: Api) -> None:
    """What is free is nobody's."""
    assert 403 == books.get(ROUTE, token=books.token("read", "red")).status_code
    assert 403 == books.get(ROUTE, token=books.token("ingest")).status_code
    assert 200 == books.get(ROUTE, token=books.token("read")).status_code


def test_what_could_be_placed_while_two_jobs_held_their_gpus(filled: Api) -> None:
    """At 01:00 both GPUs and both slices are held; the rest of the partitioned board has room."""
    found = ask(filled, f"at={rfc3339(us(HOUR))}")

    assert [("batch", 0, 0, 0, None)] == slots(found, "1"), "each GPU is alone on its node"
    assert [(H100, None, None, None, 5)] == slots(found, "1g.10gb")
    assert 0.75 == found["total"]["free_gpus"]


def test_what_is_stranded_is_priced(filled: Api) -> None:
    """Of six free memory slices requests of whole GPUs lose all and those of 1g one: half of 0.875 GPUs, at 2 an hour."""
    found = ask(filled, f"at={rfc3339(us(HOUR))}")
    one = found["clusters"][0]

    assert {"1": (2, True), "1g.10gb": (2, False)} == {
        row["shape"]: (row["requests"], row["starved"]) for row in one["demand"]["shapes"]
    }
    assert [{"amount": "0.88", "currency": "USD"}] == found["total"]["cost_per_hour"]
    assert [(H100, 0.438, "0.88")] == [
        (row["gpu_model"], row["stranded_gpus"], row["cost_per_hour"]) for row in found["stranded"]
    ]
    assert ["cpu", "network"] == [note["what"] for note in one["notes"]]


def test_pages_are_the_whole(filled: Api) -> None:
    whole, rows, cursor = ask(filled), [], ""
    while True:
        page = ask(filled, f"limit=2{cursor}")
        rows += page["items"]
        if page["next"] is None:
            break
        cursor = f"&cursor={page['next']}"

    assert whole["items"] == rows
    assert rfc3339(NOW_US) == whole["at"]


def test_a_cursor_is_of_one_question(filled: Api) -> None:
    following = ask(filled, "limit=1")["next"]
    response = filled.get(f"{ROUTE}?limit=1&days=7&cursor={following}", token=filled.service.local_secret)

    assert 400 == response.status_code
    assert "cursor" == response.json()["error"]["field"]
