"""`gpuwatch period` and `gpuwatch audit-log`: on a directory, and through the server that holds it."""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from decimal import Decimal
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

from gpuwatch import cost, in_use, periods
from gpuwatch.api.app import create_app
from gpuwatch.cli import app
from gpuwatch.periods_rows import digest_of
from gpuwatch.rates import Rate
from gpuwatch.service import Service
from gpuwatch.settings import Settings
from gpuwatch.state import State
from gpuwatch.store import Store
from gpuwatch.teams import TeamRule
from gpuwatch.web import Web
from tests.world import H100, HOUR, Gpu, World, claim, minutes, samples, us

AGO = -364 * 24 * HOUR
WEEK = "2025-W45"
RUNNER = CliRunner()


def rate(price: str) -> Rate:
    return Rate(H100, "owned", Decimal(price), us(AGO), None)


@pytest.fixture
def data(tmp_path: Path) -> Path:
    """An hour of a GPU a year ago, half of it held."""
    world = World()
    world.store.close()
    world.store = Store.open(tmp_path, threads=1)
    world.add(
        samples(Gpu(), minutes(AGO, AGO + HOUR)),
        claim("1", AGO, AGO + HOUR / 2, gpus="GPU-a", account="a", user_name="ann"),
    ).book()
    with State.open(tmp_path) as state:
        state.replace_rates([rate("2")], "test", "rates.csv", us(AGO))
        state.replace_team_rules([TeamRule("account", "a", "red")], "test", "teams.csv", us(AGO))
        cost.price_all(world.store, state)
    world.store.close()
    return tmp_path


@contextmanager
def served(data: Path) -> Iterator[Service]:
    """A server in this process, with the note by which commands find it."""
    service = Service.open(data, Settings(default_interval_s=60), {}, now_us=lambda: us(0), live=False)
    service.start()
    web = Web(create_app(service), "127.0.0.1", 0)
    web.start()
    in_use.leave(data, in_use.Note(pid(), web.url, service.local_secret))
    try:
        yield service
    finally:
        in_use.take_away(data)
        web.stop()
        service.stop()
