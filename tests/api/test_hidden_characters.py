"""Team and channel names with characters that cannot be seen are refused, and stored names stay readable."""

from __future__ import annotations

from pathlib import Path

import pytest

from gpuwatch.cli import run
from gpuwatch.state import State
from tests.worlds.api import Api

HIDDEN = ["vis\u200bion", "\u202enoisiv", "a\tb", "vision\u3164"]


def rules(team: str) -> dict[str, object]:
    return {"items": [{"match_kind": "namespace", "match": "a", "team": team}]}


def budget(team: str) -> dict[str, object]:
    return {"items": [{"team": team, "period": "month", "amount": "5", "currency": "USD"}]}


def channel(name: str, team: str) -> dict[str, object]:
    return {"items": [{"name": name, "kind": "webhook", "url": "https://example.com/", "teams": [team]}]}


@pytest.mark.parametrize("team", HIDDEN)
@pytest.mark.parametrize(
    ("method", "path", "body"),
    [
        pytest.param("PUT", "/api/v1/teams", rules, id="ownership"),
        pytest.param("PUT", "/api/v1/budgets", budget, id="a budget"),
        pytest.param(
            "PUT",
            "/api/v1/recipients",
            lambda team: {"items": [{"team": team, "to": ["ann@example.com"]}]},
            id="a recipient",
        ),
        pytest.param(
            "PUT",
            "/api/v1/channels",
            lambda team: channel("c", team),
            id="a channel's team",
        ),
        pytest.param(
            "PUT",
            "/api/v1/channels",
            lambda name: channel(name, "vision"),
            id="a channel",
        ),
    ],
)
def test_the_api_refuses_them(bare: Api, method: str, path: str, body: object, team: str) -> None:
    assert callable(body)
    shown, hidden = (bare.request(method, path, json=body(name)) for name in ("vision", team))

    assert (200, 400, False) == (shown.status_code, hidden.status_code, team in hidden.text)


@pytest.mark.parametrize("team", ["vis\u200bion", "\u202enoisiv"])
def test_files_and_commands_refuse_them(tmp_path: Path, team: str, capsys: pytest.CaptureFixture[str]) -> None:
    State.open(tmp_path / "data").close()
    (tmp_path / "bundle").mkdir()
    (tmp_path / "bundle" / "teams.csv").write_text(f"match_kind,match,team\nnamespace,a,{team}\n", "utf-8")

    assert 2 == run(["token", "create", "--scope", "read", "--team", team, "--data", str(tmp_path / "data")])
    assert "hidden character U+" in capsys.readouterr().err
    run(["import", "bundle", str(tmp_path / "bundle"), "--data", str(tmp_path / "data")])
    assert "hidden character" in capsys.readouterr().err
