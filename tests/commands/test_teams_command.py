"""The commands `gpuwatch teams`: rules set from a file, lines added below them, and the same asked of a server."""

from __future__ import annotations

import json
import threading
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

from gpuwatch.cli import app
from gpuwatch.commands.billing import policy
from gpuwatch.store.lockfile import Note

RUNNER = CliRunner()
HEADER = "match_kind,match,team\n"


def run_teams(data: Path, *words: str) -> tuple[int, str]:
    done = RUNNER.invoke(app, ["teams", *words, "--data", str(data)])
    return done.exit_code, done.stderr or str(done.exception or "")


def shown(data: Path) -> list[tuple[str, ...]]:
    done = RUNNER.invoke(app, ["teams", "show", "--data", str(data), "--format", "json"])
    return [tuple(row.values()) for row in json.loads(done.stdout)["items"]]


def test_rules_are_set_and_added_and_a_bad_line_changes_nothing(tmp_path: Path) -> None:
    data, file = tmp_path / "data", tmp_path / "mine.csv"
    file.write_text(HEADER + '"label:team",cv,"vision, and robots"\nnamespace,ml,ml\n')
    rules = [("label:team", "cv", "vision, and robots"), ("namespace", "ml", "ml")]

    assert (0, "teams: 2 rules, in force\n") == run_teams(data, "set", str(file))
    assert (0, "teams: 2 rules, nothing changed\n") == run_teams(data, "set", str(file))
    assert rules == shown(data)
    code, why = run_teams(data, "add", "label:team,*,*", "user;ann;red")
    assert (2, True) == (code, "line 5" in why)
    code, why = run_teams(data, "add", "namespace,ml,ml")
    assert (2, True) == (code, "an earlier line says the same" in why)
    assert rules == shown(data)
    assert (0, "teams: 3 rules, in force\n") == run_teams(data, "add", "label:team,*,*")
    assert [*rules, ("label:team", "*", "*")] == shown(data)


def test_a_server_gets_the_rules_that_it_has_and_the_new_ones(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """And refuses them if they were changed in between."""
    asked: list[tuple[str | None, str]] = []
    held = {"items": [{"match_kind": "user", "match": "ann", "team": "a, b"}], "version": 7, "next": None}

    class Handler(BaseHTTPRequestHandler):
        def _answer(self, body: dict[str, Any]) -> None:
            content = json.dumps(body).encode()
            self.send_response(200)
            self.send_header("Content-Length", str(len(content)))
            self.end_headers()
            self.wfile.write(content)

        def do_GET(self) -> None:
            self._answer(held)

        def do_PUT(self) -> None:
            body = self.rfile.read(int(self.headers["Content-Length"])).decode()
            asked.append((self.headers["If-Match"], body))
            self._answer({"changed": True, "rows": 2, "warnings": ["queue,x,y matches no run"]})

        def log_message(self, *_: Any) -> None:
            """Nothing is printed."""

    server = HTTPServer(("127.0.0.1", 0), Handler)
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01}, daemon=True)
    thread.start()
    try:
        note = Note(1, f"http://127.0.0.1:{server.server_port}", "secret")
        monkeypatch.setattr(policy.lockfile, "find", lambda data: note)
        file = tmp_path / "teams.csv"
        file.write_text(HEADER + "queue,x,y\n")
        assert [("user", "ann", "a, b")] == shown(tmp_path)
        added = run_teams(tmp_path, "add", "queue,x,y")
        assert 0 == run_teams(tmp_path, "set", str(file))[0]
    finally:
        server.shutdown()
        thread.join()
        server.server_close()

    assert (0, "teams: queue,x,y matches no run\nteams: 2 rules, in force\n") == added
    assert [("7", HEADER + 'user,ann,"a, b"\nqueue,x,y\n'), (None, HEADER + "queue,x,y\n")] == asked
