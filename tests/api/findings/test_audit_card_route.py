"""GET /audit-card: the authority scorecard, for who may see the whole fleet."""

from __future__ import annotations

import json
import threading
from pathlib import Path

import pytest
import uvicorn
from typer.testing import CliRunner

from gpuwatch.api.schema.findings.scorecard import AuditCard
from gpuwatch.cli import app as cli
from gpuwatch.store import lockfile
from tests.worlds.api import Api
from tests.worlds.patience import PATIENCE_S, wait_until

ROUTE = "/api/v1/audit-card"


def test_of_an_empty_service_nothing_is_known(bare: Api) -> None:
    response = bare.get(ROUTE, token=bare.service.local_secret)

    assert 200 == response.status_code, response.text
    found = AuditCard.model_validate(response.json())
    assert [None] * 4 == [layer.grade for layer in found.layers]
    assert found.window is None


@pytest.mark.parametrize("query", ["window=whenever", f"window={'7' * 200}", "window=2026-13", "where=x"])
def test_what_cannot_be_asked(bare: Api, query: str) -> None:
    response = bare.get(f"{ROUTE}?{query}", token=bare.service.local_secret)

    assert 400 == response.status_code
    assert query.partition("=")[0] == response.json()["error"]["field"]


def test_a_token_bound_to_teams_sees_nothing_of_it(books: Api) -> None:
    assert 403 == books.get(ROUTE, token=books.token("read", "red")).status_code
    assert 403 == books.get(ROUTE, token=books.token("ingest")).status_code
    assert 200 == books.get(ROUTE, token=books.token("read")).status_code


def test_the_card_has_the_documented_shape(filled: Api) -> None:
    response = filled.get(ROUTE, token=filled.service.local_secret)

    found = AuditCard.model_validate(response.json())
    assert ["placement", "partitioning", "scheduling", "fabric"] == [layer.id for layer in found.layers]
    assert found.window is not None
    assert found.waste.gpu_hours is not None


def test_the_command_asks_the_server_that_holds_the_directory(filled: Api, tmp_path: Path) -> None:
    server = uvicorn.Server(uvicorn.Config(filled.app, host="127.0.0.1", port=0, log_level="error", lifespan="off"))
    thread = threading.Thread(target=server.run, daemon=True)
    thread.start()
    try:
        wait_until(lambda: server.started or not thread.is_alive(), "the server listens")
        port = server.servers[0].sockets[0].getsockname()[1]
        data = tmp_path / "data"
        data.mkdir()
        lockfile.leave(data, lockfile.Note(1, f"http://127.0.0.1:{port}", filled.service.local_secret))
        result = CliRunner().invoke(cli, ["audit", "--data", str(data), "--out", str(tmp_path / "out")])
    finally:
        server.should_exit = True
        thread.join(PATIENCE_S)

    assert 0 == result.exit_code, result.output
    document = json.loads((tmp_path / "out/scorecard.json").read_text("utf-8"))
    assert document == filled.get(ROUTE, token=filled.service.local_secret).json()
