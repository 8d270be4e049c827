"""A running service whose state is on PostgreSQL: it survives the server's absence, and shows no password."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from urllib.parse import quote

import pytest

from gpuwatch.api.app import create_app
from gpuwatch.cli import run
from gpuwatch.commands.shared import STATE_VARIABLE, environment
from gpuwatch.core.errors import StoreError, UsageError
from gpuwatch.service.service import Service
from gpuwatch.settings import Settings
from gpuwatch.state import State
from gpuwatch.state.server import Server
from gpuwatch.state.tokens import Tokens
from tests.worlds.api import NOW_US, Api, Clock
from tests.worlds.patience import wait_until
from tests.worlds.postgres import PASSWORD, Postgres


@pytest.fixture
def api(postgres: Postgres, tmp_path: Path) -> Iterator[Api]:
    (tmp_path / "password").write_text(PASSWORD)
    url = postgres.tcp_url(postgres.new(empty=True))
    settings = Settings(state_url=url, state_password_file=str(tmp_path / "password"))
    service = Service.open(tmp_path / "data", settings, {}, now_us=lambda: NOW_US)
    service.start()
    clock = Clock()
    yield Api(service, create_app(service, clock=clock), clock, [NOW_US])
    service.stop()


def test_the_service_goes_on_after_its_state_was_away(api: Api, postgres: Postgres) -> None:
    wait_until(lambda: api.service.analysis().last_success_us is not None, "the first pass ends")
    assert 200 == api.get("/readyz").status_code

    postgres.stop()
    try:
        api.service.wake()
        wait_until(lambda: api.service.analysis().last_error, "a pass fails")
        answer = api.get("/readyz")
        refused = api.request("PUT", "/api/v1/rates", json={"items": []})
    finally:
        postgres.start()

    (reason,) = [text for text in answer.json()["reasons"] if "last analysis" not in text]
    assert (503, 503) == (answer.status_code, refused.status_code)
    assert f"state postgresql://gpuwatch@127.0.0.1:{postgres.port}/" in reason
    assert "start PostgreSQL there" in reason
    assert PASSWORD not in answer.text + refused.text
    api.service.wake()
    wait_until(lambda: api.get("/readyz").json()["status"] == "ready", "it is ready again")
    assert 200 == api.request("PUT", "/api/v1/rates", json={"items": []}).status_code


def test_the_check_of_a_configuration_shows_no_password(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    secret = quote(PASSWORD, safe="")
    (tmp_path / "gpuwatch.toml").write_text(
        f'[gpuwatch]\nstate_url = "postgresql://ann:{secret}@db:5433/x?password=pw"'
    )

    assert 0 == run(["serve", "--config", str(tmp_path / "gpuwatch.toml"), "--check"])
    assert "setting  state_url = 'postgresql://ann@db:5433/x'" in capsys.readouterr().out
    monkeypatch.setenv("GPUWATCH_STATE_URL", f"postgresql://ann:{PASSWORD}@db/x")
    assert 2 == run(["serve", "--check"])
    refused = capsys.readouterr().err
    assert "state_url = (not shown) is not the URL of a PostgreSQL database" in refused
    assert "x9tail" not in refused


def test_an_option_goes_before_the_environment_and_a_file(
    postgres: Postgres, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    chosen = postgres.url(postgres.new())
    (tmp_path / "gpuwatch.toml").write_text('[gpuwatch]\nstate_url = "postgresql://127.0.0.1:1/file"')
    monkeypatch.setenv("GPUWATCH_STATE_URL", "postgresql://127.0.0.1:1/environment")
    config = ["--config", str(tmp_path / "gpuwatch.toml")]
    data = ["--data", str(tmp_path / "data")]

    assert 0 == run(["token", "create", "--scope", "admin", "--name", "robot", *data, "--state", chosen])
    assert 3 == run(["analyze", *data, *config])
    assert "127.0.0.1:1/environment: " in capsys.readouterr().err
    monkeypatch.delenv("GPUWATCH_STATE_URL")
    assert 3 == run(["analyze", *data, *config])
    assert "127.0.0.1:1/file: " in capsys.readouterr().err
    with State.open(Server(chosen)) as state:
        assert ["robot"] == [token.name for token in Tokens(state).list()]


def test_a_password_in_an_argument_is_warned_of(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert 3 == run(["token", "list", "--data", str(tmp_path), "--state", "postgresql://ann:hush@127.0.0.1:1/x"])

    error = capsys.readouterr().err
    assert "other users of this machine see the password" in error
    assert "hush" not in error
    assert STATE_VARIABLE not in environment(), "the option holds for one command"


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        pytest.param({"state_url": "mysql://h/x"}, "is not the URL of a PostgreSQL database", id="another database"),
        pytest.param({"state_password_file": "f"}, "state_url is not set", id="a password for nothing"),
        pytest.param(
            {"state_url": "postgresql://a:b@h/x", "state_password_file": "f"}, "has a password too", id="two passwords"
        ),
    ],
)
def test_settings_that_do_not_fit_are_refused(settings: dict[str, str], message: str) -> None:
    with pytest.raises(UsageError, match=message):
        Settings(**settings)  # type: ignore[arg-type]


def test_several_stores_share_a_state_once_each_was_added(postgres: Postgres, tmp_path: Path) -> None:
    settings = Settings(state_url=postgres.url(postgres.new(empty=True)))

    def opened(name: str, new_store: bool = False) -> None:
        Service.open(tmp_path / name, settings, {}, now_us=lambda: NOW_US, live=False, new_store=new_store).stop()

    opened("east")
    with pytest.raises(StoreError, match="is missing, but the state remembers one"):
        opened("west")
    opened("west", new_store=True)
    for name in ("east", "west", "east"):
        opened(name)
    with pytest.raises(StoreError, match="is missing, but the state remembers one"):
        opened("south")
