"""Typed calls of the REST API: the only way the pages come to data."""

from __future__ import annotations

import asyncio
import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any
from urllib.parse import quote

import httpx
from starlette.types import ASGIApp

Row = dict[str, Any]
"""A JSON object of the API; shapes in docs of the routes."""

COOKIE = "gpuwatch_token"
"""Holds a browser's token; the API takes it too, so that its exports open from a link."""

PLAIN = re.compile(r"[\w.~+/=-]{1,512}", re.ASCII)
"""What a token may look like in a header."""

TIMEOUT_S = 20.0
BACKTEST_S = 90.0
"""A back-test of a month runs its rule twice."""

MAX_ANSWER = 32 * 1024 * 1024
"""Bytes of one answer that a page may hold."""

MAX_LIMIT = 1000
FORWARDED = (
    "host",
    "origin",
    "sec-fetch-site",
    "sec-fetch-mode",
    "x-forwarded-for",
    "x-forwarded-host",
    "x-forwarded-proto",
    "x-real-ip",
    "forwarded",
    "via",
)
"""Headers of the browser's request that the API judges a caller by, beside its token: a proxy must stay visible."""


class ApiFailure(Exception):
    """The API said no, or nothing: status (0 = unreachable), and its words."""

    def __init__(self, status: int, code: str, message: str, hint: str = "") -> None:
        super().__init__(message)
        self.status, self.code, self.message, self.hint = status, code, message, hint


@dataclass(frozen=True)
class Caller:
    """Who asks: the browser's token and address. The pages have no rights of their own."""

    token: str | None = None
    """Sent as `Authorization`: what somebody signs in with."""
    cookie: str | None = None
    """Sent as the cookie it came in: the API knows that a browser may keep that of another server on this machine."""
    address: tuple[str, int] = ("127.0.0.1", 0)
    headers: tuple[tuple[str, str], ...] = ()


class Client:
    """Reaches the API: an ASGI app in this process, or a server by its base URL."""

    def __init__(self, app: ASGIApp | None = None, base_url: str = "http://localhost") -> None:
        self._app, self._base_url = app, base_url

    def of(self, caller: Caller) -> Api:
        """The API as that caller may see it."""
        return Api(self, caller)

    async def send(
        self,
        caller: Caller,
        method: str,
        path: str,
        params: Mapping[str, str],
        body: Row | None = None,
        timeout_s: float = TIMEOUT_S,
    ) -> httpx.Response:
        """One request. Raises ApiFailure when no answer came or it was no success."""
        headers = dict(caller.headers) if self._app is not None else {}
        if caller.token:
            headers["Authorization"] = f"Bearer {caller.token}"
        elif caller.cookie and PLAIN.fullmatch(caller.cookie):
            headers["Cookie"] = f"{COOKIE}={caller.cookie}"
        # The transport stands for the browser: with its default address everybody would look like loopback.
        transport = (
            httpx.ASGITransport(app=self._app, raise_app_exceptions=False, client=caller.address)
            if self._app is not None
            else None
        )
        try:
            async with (
                asyncio.timeout(timeout_s),
                httpx.AsyncClient(transport=transport, base_url=self._base_url, timeout=timeout_s) as http,
            ):
                response = await http.request(method, path, params=params, headers=headers, json=body)
        except (TimeoutError, httpx.TimeoutException) as error:
            raise ApiFailure(504, "timeout", "The answer took too long.", "Choose a shorter window.") from error
        except httpx.HTTPError as error:
            raise ApiFailure(
                0, "unreachable", "The API does not answer.", f"{type(error).__name__}: {error}"
            ) from error
        if not response.is_success:
            raise failure_of(response)
        if len(response.content) > MAX_ANSWER:
            raise ApiFailure(413, "too_large", "The answer is too large to show.", "Choose a shorter window.")
        return response


def failure_of(response: httpx.Response) -> ApiFailure:
    """The failure an error answer describes; an answer of another shape is described by its status."""
    try:
        said = response.json()["error"]
        return ApiFailure(
            response.status_code, str(said.get("code")), str(said.get("message")), str(said.get("hint") or "")
        )
    except (ValueError, KeyError, TypeError, AttributeError):
        return ApiFailure(response.status_code, "error", f"The API answered {response.status_code}.")


@dataclass(frozen=True)
class Api:
    """One method a route of contract.md section 3. All raise ApiFailure; None parameters are left out."""

    client: Client
    caller: Caller

    async def _get(self, path: str, **params: object) -> Row:
        wanted = {name: str(value) for name, value in params.items() if value not in (None, "")}
        response = await self.client.send(self.caller, "GET", f"/api/v1/{path}", wanted)
        try:
            found = response.json()
        except ValueError as error:
            raise ApiFailure(502, "bad_answer", f"/api/v1/{path} did not answer with JSON.") from error
        if not isinstance(found, dict):
            raise ApiFailure(502, "bad_answer", f"/api/v1/{path} did not answer with an object.")
        return found

    async def me(self) -> Row:
        """Scope, teams and name of the caller; whether tokens are on; the version."""
        return await self._get("me")

    async def fleet(self) -> Row:
        """GPUs and slices now, by cluster, pool and model."""
        return await self._get("fleet")

    async def ledger(self, window: str, by: str, step: str | None = None, **scope: str) -> Row:
        """GPU-seconds and cost by bucket, and the funnel."""
        return await self._get("ledger", window=window, by=by, step=step, limit=MAX_LIMIT, **scope)

    async def chargeback(self, window: str, by: str, **scope: str) -> Row:
        """Who pays what."""
        return await self._get("chargeback", window=window, by=by, limit=MAX_LIMIT, **scope)

    async def policies(self) -> Row:
        """Who pays for what: the policies and which holds now."""
        return await self._get("policies")

    async def explain(self, charge: str, limit: int, cursor: str, **asked: str) -> Row:
        """How a charge was computed; `asked` names another policy."""
        return await self._get(f"charges/{quote(charge, safe='')}/explain", limit=limit, cursor=cursor, **asked)

    async def budgets(self, **scope: str) -> Row:
        """Each budget in the period that runs now."""
        return await self._get("budgets", **scope)

    async def periods(self, limit: int, cursor: str) -> Row:
        """Periods that were closed, the newest first."""
        return await self._get("periods", limit=limit, cursor=cursor)

    async def period(self, name: str, of: str, cursor: str) -> Row:
        """One period, and its frozen rows or its corrections."""
        return await self._get(f"periods/{quote(name, safe='')}", of=of, limit=MAX_LIMIT, cursor=cursor)

    async def decision(self, question: str, window: str, **asked: str) -> Row:
        """own-vs-cloud, spot, right-sizing or consolidation, with what is assumed."""
        return await self._get(f"decisions/{question}", window=window, **asked)

    async def slices(self, window: str, cursor: str, **scope: str) -> Row:
        """MIG slices and the GPUs they lie on."""
        return await self._get("slices", window=window, limit=MAX_LIMIT, cursor=cursor, **scope)

    async def findings(self, limit: int = 100, **filters: str) -> Row:
        """Findings; filters are the route's own."""
        return await self._get("findings", limit=limit, **filters)

    async def finding(self, key: str) -> Row:
        """One finding with its series and actions."""
        return await self._get(f"findings/{quote(key, safe='')}")

    async def act(
        self, key: str, action: str, reason: str, until: str | None = None, verdict: str | None = None
    ) -> Row:
        """ack, snooze, exempt or reopen a finding; `verdict` goes with ack: whether it was true."""
        body: Row = {"reason": reason} | ({"until": until} if until else {}) | ({"verdict": verdict} if verdict else {})
        path = f"/api/v1/findings/{quote(key, safe='')}/{quote(action, safe='')}"
        response = await self.client.send(self.caller, "POST", path, {}, body)
        return dict(response.json()) if response.content else {}

    async def detectors(self) -> Row:
        """The rules: words, thresholds in force, precision; and files of the site that are none."""
        return await self._get("detectors", limit=MAX_LIMIT)

    async def detectors_card(self) -> Row:
        """Presets, thresholds and switched-off rules: in general, of pools, of teams."""
        return await self._get("detectors/card")

    async def backtest(self, rule: str, body: Row) -> Row:
        """Who a rule would have flagged over a past window. Stores nothing."""
        path = f"/api/v1/detectors/{quote(rule, safe='')}/backtest"
        response = await self.client.send(self.caller, "POST", path, {}, body, BACKTEST_S)
        return dict(response.json())

    async def reclaim(self, limit: int, cursor: str, **filters: str) -> Row:
        """Idle devices that should be given back, and how far their owners were told."""
        return await self._get("reclaim", limit=limit, cursor=cursor, **filters)

    async def capacity(self, what: str, **asked: object) -> Row:
        """shapes, plan, history or stranded: what could be placed, what would make room, and who strands it."""
        return await self._get(f"capacity/{what}", **asked)

    async def jobs(self, window: str, limit: int = 100, **filters: str) -> Row:
        """Jobs; filters are the route's own."""
        return await self._get("jobs", window=window, limit=limit, **filters)

    async def job(self, job: str, cluster: str | None) -> Row:
        """One job with its runs, waterfall, findings and series."""
        return await self._get(f"jobs/{quote(job, safe='/')}", cluster=cluster)

    async def quality(self) -> Row:
        """Sources and checks."""
        return await self._get("quality")
