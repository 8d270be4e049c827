"""Typed calls to the REST API, the pages' only source of data."""

from __future__ import annotations

import asyncio
import json
import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from hashlib import blake2b
from typing import Any
from urllib.parse import quote

import httpx
from starlette.types import ASGIApp

from gpuwatch.dashboards import in_process
from gpuwatch.dashboards.browser_headers import passed_on
from gpuwatch.dashboards.failure import ApiFailure, failure_of

__all__ = ["Api", "ApiFailure", "Caller", "Client", "administers", "failure_of", "passed_on"]

Row = dict[str, Any]
"""A JSON object from the API; the API reference documents the fields."""

COOKIE = "gpuwatch_session"
"""Holds the id of a browser's session. The API accepts it too, so that export links work."""

PLAIN = re.compile(r"[\w.~+/=-]{1,512}", re.ASCII)
"""The tokens that may be sent in a header."""

TIMEOUT_S = 20.0
BACKTEST_S = 90.0
"""Longer, because a back-test runs its rule twice."""

MAX_ANSWER = 32 * 1024 * 1024
"""Largest response that a page accepts, in bytes."""

MAX_LIMIT = 1000


def administers(me: Mapping[str, object]) -> bool:
    """Whether the caller, as `Api.me` returns it, may change what people set."""
    return me.get("scope") == "admin"


@dataclass(frozen=True)
class Caller:
    """The browser's token or session, and its address. The pages have no permissions of their own."""

    token: str | None = None
    """Sent as `Authorization`, when signing in."""
    cookie: str | None = None
    """Sent as a cookie: the API ignores an invalid one, which may belong to another server on the same host."""
    address: tuple[str, int] = ("127.0.0.1", 0)
    headers: tuple[tuple[str, str], ...] = ()
    zone: str | None = None
    """The time zone in which the browser shows times; None: UTC."""


class Client:
    """Connects to the API: an ASGI app in this process, or a server by its base URL."""

    def __init__(self, app: ASGIApp | None = None, base_url: str = "http://localhost") -> None:
        self._app, self._base_url = app, base_url

    def of(self, caller: Caller) -> Api:
        """The API with this caller's permissions."""
        return Api(self, caller)

    async def send(
        self,
        caller: Caller,
        method: str,
        path: str,
        params: Mapping[str, str],
        body: Row | str | None = None,
        timeout_s: float = TIMEOUT_S,
        version: str = "",
    ) -> httpx.Response:
        """Sends one request: `body` as JSON, or as TOML if it is text; `version` is that of the list which it replaces. Raises
        ApiFailure unless it succeeds.
        """
        headers = dict(caller.headers) if self._app is not None else {}
        if version:
            headers["if-match"] = f'"{version}"'
        sent: dict[str, Any] = {"json": body}
        if isinstance(body, str):
            sent = {"content": body.encode()}
            headers["content-type"] = "application/toml"
        if caller.token:
            headers["authorization"] = f"Bearer {caller.token}"
        elif caller.cookie and PLAIN.fullmatch(caller.cookie):
            headers["cookie"] = f"{COOKIE}={caller.cookie}"
        try:
            async with asyncio.timeout(timeout_s):
                if self._app is not None:
                    # Pass on the browser's address: with another, every caller would look like loopback.
                    response = await in_process.ask(self._app, caller.address, method, path, params, headers, body)
                else:
                    async with httpx.AsyncClient(base_url=self._base_url, timeout=timeout_s) as http:
                        response = await http.request(method, path, params=params, headers=headers, **sent)
        except (TimeoutError, httpx.TimeoutException) as error:
            raise ApiFailure(504, "timeout", "The API did not respond in time.", "Choose a shorter window.") from error
        except httpx.HTTPError as error:
            raise ApiFailure(
                0, "unreachable", "The API cannot be reached.", f"{type(error).__name__}: {error}"
            ) from error
        if not response.is_success:
            raise failure_of(response)
        if len(response.content) > MAX_ANSWER:
            raise ApiFailure(413, "too_large", "The response is too large to show.", "Choose a shorter window.")
        return response


@dataclass(frozen=True)
class Api:
    """One method per route that several pages use, and `get` for the rest. All raise ApiFailure; empty parameters are not sent."""

    client: Client
    caller: Caller
    answers: set[str] = field(default_factory=set)
    """Names of all answers so far: two calls with the same names had the same answers."""
    instants: set[str] = field(default_factory=set)
    """As of when the answers so far are that came from a copy of a lake."""

    async def get(self, path: str, **params: object) -> Row:
        """The JSON object of any route below /api/v1/, for routes without a method of their own here."""
        wanted = {name: str(value) for name, value in params.items() if value not in (None, "")}
        response = await self._send("GET", f"/api/v1/{path}", wanted)
        try:
            found = response.json()
        except ValueError as error:
            raise ApiFailure(502, "bad_answer", f"/api/v1/{path} did not return JSON.") from error
        if not isinstance(found, dict):
            raise ApiFailure(502, "bad_answer", f"/api/v1/{path} did not return a JSON object.")
        return found

    async def _send(
        self,
        method: str,
        path: str,
        params: Mapping[str, str],
        body: Row | str | None = None,
        timeout_s: float = TIMEOUT_S,
        version: str = "",
    ) -> httpx.Response:
        """Sends a request, and remembers the name of its answer."""
        asked = json.dumps([method, path, sorted(params.items()), body])
        try:
            response = await self.client.send(self.caller, method, path, params, body, timeout_s, version)
        except ApiFailure as error:
            self.answers.add(f"{asked} {error.status} {error.code} {error} {error.hint}")
            raise
        self.answers.add(f"{asked} {blake2b(response.content, digest_size=16).hexdigest()}")
        self.instants.update(response.headers.get_list("gpuwatch-as-of"))
        return response

    async def change(
        self,
        method: str,
        path: str,
        body: Row | str | None = None,
        *,
        version: str = "",
        patient: bool = False,
        **params: object,
    ) -> Row:
        """A request that changes something, or asks what a change would do; `patient` waits for long answers."""
        wanted = {name: str(value) for name, value in params.items() if value not in (None, "")}
        timeout_s = BACKTEST_S if patient else TIMEOUT_S
        return dict((await self._send(method, f"/api/v1/{path}", wanted, body, timeout_s, version)).json())

    async def me(self) -> Row:
        """Scope, teams and name of the caller; whether tokens are required; the version."""
        return await self.get("me")

    async def start_session(self) -> Row:
        """Starts a session for the token: its id, and the seconds until it expires."""
        response = await self._send("POST", "/api/v1/session", {})
        return dict(response.json())

    async def sign_on(self) -> Row | None:
        """The provider through which people sign in; None without one."""
        found: Row | None = (await self.get("session")).get("sso")
        return found

    async def leave(self, target: str) -> Row:
        """Begins to sign in through the provider: its address, and what the browser keeps meanwhile."""
        return dict((await self._send("POST", "/api/v1/session/sso", {}, {"target": target})).json())

    async def arrive(self, **brought: str) -> Row:
        """Starts the session of the person whom the provider sent back."""
        return dict((await self._send("POST", "/api/v1/session/sso/back", {}, brought)).json())

    async def end_session(self) -> None:
        """Ends the session of the cookie."""
        await self._send("DELETE", "/api/v1/session", {})

    async def fleet(self) -> Row:
        """GPUs and slices now, by cluster, pool and model."""
        return await self.get("fleet")

    async def overview(self, window: str, **scope: str) -> Row:
        """What was avoidable in the window and in the one before, by team, and what to do first."""
        return await self.get("overview", window=window, **scope)

    async def ledger(self, window: str, by: str, step: str | None = None, **scope: str) -> Row:
        """GPU-seconds and cost by bucket, and the funnel."""
        return await self.get("ledger", window=window, by=by, step=step, limit=MAX_LIMIT, **scope)

    async def chargeback(self, window: str, by: str, **scope: str) -> Row:
        """Charges by the given dimensions."""
        return await self.get("chargeback", window=window, by=by, limit=MAX_LIMIT, **scope)

    async def policies(self) -> Row:
        """The chargeback policies, with the one in effect."""
        return await self.get("policies")

    async def explain(self, charge: str, limit: int, cursor: str, **options: str) -> Row:
        """How a charge was computed; `options` may name another policy."""
        return await self.get(f"charges/{quote(charge, safe='')}/explain", limit=limit, cursor=cursor, **options)

    async def budgets(self, **scope: str) -> Row:
        """Each budget in its current period."""
        return await self.get("budgets", **scope)

    async def periods(self, limit: int, cursor: str) -> Row:
        """Closed periods, newest first."""
        return await self.get("periods", limit=limit, cursor=cursor)

    async def period(self, name: str, of: str, cursor: str) -> Row:
        """One period with its frozen rows or its corrections."""
        return await self.get(f"periods/{quote(name, safe='')}", of=of, limit=MAX_LIMIT, cursor=cursor)

    async def decision(self, question: str, window: str, **options: str) -> Row:
        """own-vs-cloud, spot, right-sizing or consolidation, with its assumptions."""
        return await self.get(f"decisions/{question}", window=window, **options)

    async def slices(self, window: str, cursor: str, **scope: str) -> Row:
        """MIG slices and their GPUs."""
        return await self.get("slices", window=window, limit=MAX_LIMIT, cursor=cursor, **scope)

    async def findings(self, limit: int = 100, **filters: str) -> Row:
        """Findings, with the route's filters."""
        return await self.get("findings", limit=limit, **filters)

    async def finding(self, key: str) -> Row:
        """One finding with its series and actions."""
        return await self.get(f"findings/{quote(key, safe='')}")

    async def act(self, keys: list[str], action: str, **words: str | None) -> Row:
        """ack, snooze, exempt, reopen, assign or judge findings: all of them or none."""
        body: Row = {"keys": keys, "action": action, **{name: word for name, word in words.items() if word}}
        response = await self._send("POST", "/api/v1/inbox/actions", {}, body)
        return dict(response.json())

    async def test_channel(self, name: str) -> Row:
        """Sends a test message through a channel: whether it was delivered, and if not, why."""
        path = f"/api/v1/channels/{quote(name, safe='')}/test"
        response = await self._send("POST", path, {})
        return dict(response.json())

    async def inbox(self, **filters: str) -> Row:
        """How many findings are in each state, and the causes of those in one state."""
        return await self.get("inbox", **filters)

    async def detectors(self) -> Row:
        """The rules with their thresholds and precision, and custom rule files that could not be loaded."""
        return await self.get("detectors", limit=MAX_LIMIT)

    async def detectors_card(self) -> Row:
        """Presets, thresholds and disabled rules: global, per pool and per team."""
        return await self.get("detectors/card")

    async def backtest(self, rule: str, body: Row) -> Row:
        """What a rule would have flagged in a past window. Stores nothing."""
        path = f"/api/v1/detectors/{quote(rule, safe='')}/backtest"
        response = await self._send("POST", path, {}, body, BACKTEST_S)
        return dict(response.json())

    async def reclaim(self, limit: int, cursor: str, **filters: str) -> Row:
        """Idle devices that should be released, with the notices sent to their owners."""
        return await self.get("reclaim", limit=limit, cursor=cursor, **filters)

    async def capacity(self, what: str, **options: object) -> Row:
        """shapes, plan, history or stranded: what fits now, what moves would help, and what is stranded."""
        return await self.get(f"capacity/{what}", **options)

    async def jobs(self, window: str, limit: int = 100, **filters: str) -> Row:
        """Jobs, with the route's filters."""
        return await self.get("jobs", window=window, limit=limit, **filters)

    async def job(self, job: str, cluster: str | None) -> Row:
        """One job with its runs, waterfall, findings and series."""
        return await self.get(f"jobs/{quote(job, safe='/')}", cluster=cluster)

    async def quality(self) -> Row:
        """Data sources and checks."""
        return await self.get("quality")
