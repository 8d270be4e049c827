"""A service in memory or on disk with two teams' worth of records, and a client that comes from where a test says."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from dataclasses import dataclass
from decimal import Decimal
from pathlib import Path
from typing import Any

import httpx
import pyarrow as pa
from fastapi import FastAPI

from gpuwatch.api.app import create_app
from gpuwatch.core.model import CLAIM, NODE, Records
from gpuwatch.policy.ownership import TeamRule
from gpuwatch.policy.repository import replace_team_rules
from gpuwatch.rates.card import Rate
from gpuwatch.rates.repository import replace_rates
from gpuwatch.service.service import Service
from gpuwatch.settings import Settings
from gpuwatch.state.tokens import Tokens
from tests.worlds.world import BUSY, HOUR, IDLE, T0_US, Gpu, batch, claim, minutes, node, pod, samples, us

NOW_US = T0_US + 8 * 24 * HOUR * 1_000_000
"""A week and a day after the first sample: the week of the samples is over."""

RED = {
    "team": "red",
    "user": "ursula",
    "namespace": "redlab",
    "account": "redacct",
    "node": "rednode",
    "gpu": "GPU-red",
}
BLUE = {
    "team": "blue",
    "user": "boris",
    "namespace": "bluelab",
    "account": "blueacct",
    "node": "bluenode",
    "gpu": "GPU-blue",
}
BLUE_WORDS = ("blue", "boris", "9002")
"""What only team blue has: no answer to team red may hold one of these."""


class Clock:
    """Seconds that pass when a test says so."""

    def __init__(self) -> None:
        self.now = 1000.0

    def __call__(self) -> float:
        return self.now


@dataclass
class Api:
    """The application, its service, and requests to it."""

    service: Service
    app: FastAPI
    clock: Clock
    moment: list[int]
    """What the service's clock says, in microseconds: a test may move it."""

    def token(self, scope: str, *teams: str, name: str = "test") -> str:
        """The text of a new token."""
        tokens = Tokens(self.service.state)
        return tokens.create(name, scope, teams or None, None, "test", self.service.now_us())[1]

    def request(
        self,
        method: str,
        path: str,
        *,
        token: str | None = None,
        peer: str = "127.0.0.1",
        headers: Mapping[str, str] | None = None,
        host: str = "localhost",
        **more: Any,
    ) -> httpx.Response:
        """One request from `peer`; never raises what the application raised."""

        async def send() -> httpx.Response:
            transport = httpx.ASGITransport(self.app, raise_app_exceptions=False, client=(peer, 50_000))
            bearer = {} if token is None else {"Authorization": f"Bearer {token}"}
            async with httpx.AsyncClient(transport=transport, base_url=f"http://{host}") as client:
                return await client.request(method, path, headers={**bearer, **(headers or {})}, **more)

        return asyncio.run(send())

    def get(self, path: str, **more: Any) -> httpx.Response:
        """A GET."""
        return self.request("GET", path, **more)


def open_api(directory: Path | None, **more: Any) -> Api:
    """A service with its writer running, and the application over it."""
    moment = [NOW_US]
    service = Service.open(directory, Settings(default_interval_s=60), {}, now_us=lambda: moment[0], live=False)
    service.start()
    clock = Clock()
    return Api(service, create_app(service, clock=clock, **more), clock, moment)


def fill(service: Service) -> None:
    """Two teams: each a Slurm job on an idle GPU of its own node, and a pod on a MIG slice of one shared board."""
    whole = [Gpu("GPU-red", "rednode"), Gpu("GPU-blue", "bluenode")]
    slices = [Gpu("GPU-mig", "mignode", 0, gi, "1g.10gb") for gi in (3, 4)]
    rows: list[Any] = []
    for gpu in whole:
        rows += samples(gpu, minutes(0, 6 * HOUR), IDLE)
    for gpu, team in zip(slices, (RED, BLUE), strict=True):
        name = f"{team['team']}pod"
        rows += samples(gpu, minutes(0, 2 * HOUR), BUSY, namespace=team["namespace"], pod=name, pod_uid=f"{name}-uid")
    claims = [
        claim("9001", 0, 6 * HOUR, "rednode", gpus="GPU-red", user_name="ursula", account="redacct", name="redtrain"),
        claim(
            "9002", 0, 6 * HOUR, "bluenode", gpus="GPU-blue", user_name="boris", account="blueacct", name="bluetrain"
        ),
    ]
    for team in (RED, BLUE):
        name = f"{team['team']}pod"
        words = {"namespace": team["namespace"], "pod": name, "user_name": team["user"], "profile": "1g.10gb"}
        row = pod(name, f"{name}-uid", 0, 2 * HOUR, "mignode", **words)
        claims.append(row | {"job_id": f"{team['namespace']}/{name}"})
    nodes = [node(team["node"], {"": 1}, at=HOUR, pool="batch") for team in (RED, BLUE)]
    with service.store.transaction():
        for one in batch(rows):
            service.store.append(one)
        service.store.append(Records("claim", pa.Table.from_pylist(claims, schema=CLAIM)))
        service.store.append(Records("node", pa.Table.from_pylist(nodes, schema=NODE)))
    rules = [TeamRule("account", f"{t['team']}acct", t["team"]) for t in (RED, BLUE)]
    rules += [TeamRule("namespace", f"{t['team']}lab", t["team"]) for t in (RED, BLUE)]
    replace_team_rules(service.state, rules, "test", "test", us(0))
    replace_rates(service.state, [Rate("H100", "owned", Decimal("2.00"), us(0))], "test", "test", us(0))
    service.analyse_once()
