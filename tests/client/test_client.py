"""The Python client: tables equal the API's answers, errors carry the API's words, and the notebook of the docs runs."""

from __future__ import annotations

import json
from collections.abc import Iterator
from decimal import Decimal
from functools import partial
from pathlib import Path
from typing import Any

import httpx
import pytest

from gpuwatch import client as module
from gpuwatch.client import ApiError, Client
from tests.house.source_tree import ROOT
from tests.worlds.api import Api, fill, open_api

ALL = "2020-01-01T00:00:00Z,2030-01-01T00:00:00Z"
NOTEBOOK = ROOT / "docs/reference/client.ipynb"


def forwarded(api: Api, request: httpx.Request) -> httpx.Response:
    """The application's answer to a request of the client."""
    token = request.headers["Authorization"].removeprefix("Bearer ")
    answer = api.get(request.url.raw_path.decode(), token=token)
    return httpx.Response(answer.status_code, headers=answer.headers, content=answer.content)


@pytest.fixture(scope="module")
def client(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Client]:
    """A client of a server with two teams."""
    api = open_api(tmp_path_factory.mktemp("client") / "data")
    fill(api.service)
    http = httpx.Client(base_url="http://localhost", transport=httpx.MockTransport(partial(forwarded, api)))
    with Client("http://localhost", api.token("read"), http=http) as found:
        yield found
    api.service.stop()


def test_tables_are_the_answers(client: Client) -> None:
    table = client.chargeback(window=ALL, by=["team", "user"], exact=True)
    rows = client.get("chargeback", window=ALL, by="team,user")["items"]

    assert [row["team"] for row in rows] == list(table["team"])
    assert [Decimal(row["cost"]) for row in rows] == list(table["cost"])
    assert sum(Decimal(row["gpu_seconds"]) for row in rows) == sum(table["gpu_hours"]) * 3600


def test_amounts_are_numbers_that_pandas_sums(client: Client) -> None:
    ledger = client.ledger(window=ALL, by=["team", "bucket"])
    by_team = ledger.groupby("team")["gpu_hours"].sum()

    assert "float64" == ledger["gpu_hours"].dtype
    assert {"red", "blue"} < set(by_team.index)
    assert by_team.sum() == pytest.approx(float(client.get("ledger", window=ALL)["capacity_gpu_seconds"]) / 3600)


def test_lists_have_all_their_pages(client: Client, monkeypatch: pytest.MonkeyPatch) -> None:
    whole = client.jobs(window=ALL)
    monkeypatch.setattr(module, "PAGE_ITEMS", 1)

    assert len(whole) > 1
    assert list(whole["id"]) == list(client.jobs(window=ALL)["id"])


def test_times_are_times(client: Client) -> None:
    findings = client.findings()

    assert "UTC" == str(findings["started_at"].dt.tz)
    assert set(findings["detector"]) >= {"idle-hoarding"}


def test_an_error_has_the_words_of_the_api(client: Client) -> None:
    with pytest.raises(ApiError, match="not a dimension") as failure:
        client.chargeback(window=ALL, by=["colour"])

    assert (400, "bad_request") == (failure.value.status, failure.value.code)


def replies(*answers: httpx.Response | Exception) -> httpx.Client:
    """A connection that gives these answers in order."""
    todo = iter(answers)

    def answer(_: httpx.Request) -> httpx.Response:
        one = next(todo)
        if isinstance(one, Exception):
            raise one
        return one

    return httpx.Client(base_url="http://gpuwatch", transport=httpx.MockTransport(answer))


def test_a_busy_server_is_asked_again(monkeypatch: pytest.MonkeyPatch) -> None:
    waits: list[float] = []
    monkeypatch.setattr(module.time, "sleep", waits.append)
    busy = httpx.Response(429, headers={"Retry-After": "2"}, json={})

    assert {"gpus": 1} == Client("", http=replies(busy, httpx.Response(200, json={"gpus": 1}))).get("fleet")
    assert [2] == waits


@pytest.mark.parametrize(
    ("answer", "status", "words"),
    [
        pytest.param(httpx.ConnectError("refused"), 0, "does not answer: refused", id="nobody listens"),
        pytest.param(
            httpx.Response(502, text="<html>proxy</html>"), 502, "HTTP 502: <html>proxy", id="a proxy answers"
        ),
        pytest.param(
            httpx.Response(503, headers={"Retry-After": "600"}, json={"error": {"code": "busy", "message": "later"}}),
            503,
            "later",
            id="a wait that is too long",
        ),
    ],
)
def test_failures_are_named(answer: httpx.Response | Exception, status: int, words: str) -> None:
    with pytest.raises(ApiError) as failure:
        Client("", http=replies(answer)).get("fleet")

    assert status == failure.value.status
    assert words in str(failure.value)


def cells(path: Path) -> list[str]:
    notebook: dict[str, Any] = json.loads(path.read_text("utf-8"))
    return ["".join(cell["source"]) for cell in notebook["cells"] if cell["cell_type"] == "code"]


def test_the_notebook_of_the_docs_runs(client: Client) -> None:
    """Its cells in order, on this server; nothing that they need is missing."""
    names: dict[str, Any] = {"__name__": "notebook"}
    first, *others = cells(NOTEBOOK)
    exec(compile(first, "cell 1", "exec"), names)  # noqa: S102 - our own docs
    assert isinstance(names["client"], Client)
    names["client"] = client
    names["WINDOW"] = ALL
    for number, text in enumerate(others, 2):
        exec(compile(text, f"cell {number}", "exec"), names)  # noqa: S102 - our own docs

    assert names["waste"]["avoidable_hours"].sum() > 0
    assert len(names["charges"]) >= 2
