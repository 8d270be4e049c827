"""Who asks, and what they may see: the one place that turns a request into an Access."""

from __future__ import annotations

import ipaddress
from collections.abc import Callable, Collection
from dataclasses import dataclass, replace
from hmac import compare_digest
from math import ceil
from typing import TYPE_CHECKING, Annotated, TypeVar, cast

from anyio import CapacityLimiter, to_thread
from fastapi import Depends, Request

from gpuwatch.api.errors import ApiError, TeamScope
from gpuwatch.api.limits import CALLER, Buckets, Clock
from gpuwatch.api.local_callers import LOCAL_NAMES, SAFE_METHODS, from_own_address, is_local, same_origin
from gpuwatch.api.turns import Turns, take_for
from gpuwatch.state.actor import HEADER, decoded, sent_by, typed_by
from gpuwatch.state.sessions import Sessions
from gpuwatch.state.tokens import Token, Tokens

if TYPE_CHECKING:
    from gpuwatch.service.service import Service

COOKIE = "gpuwatch_session"
"""Holds the id of a browser's session once somebody has signed in on the pages: HttpOnly, and sent by no other site."""
FAILURES_PER_S, FAILURES_BURST = 0.2, 20.0
"""Wrong tokens of one client address that are answered 401; beyond, 429. A right token is never refused for them."""
REQUESTS_PER_S, REQUESTS_BURST = 500.0, 5000.0
"""Requests of one token."""
LOOKUPS_AT_ONCE = 8
"""Look-ups of tokens at a time, apart from the threads that answer queries: those may all be busy."""
PROBES_AT_ONCE = 2
_CHALLENGE = {"WWW-Authenticate": "Bearer"}
_NEAR_HINT = (
    "send Authorization: Bearer TOKEN (gpuwatch token create makes one); without tokens only http://localhost on the "
    "server's own machine is let in, and through no proxy"
)
_PUBLIC_HINT = (
    "public_url is set, so callers on this machine need a token too: run gpuwatch token create --scope admin, and send "
    "Authorization: Bearer TOKEN"
)


T = TypeVar("T")


@dataclass(frozen=True)
class Access:
    """What a request may do: its scope, the teams whose rows it sees (None: all), and its name in the audit log."""

    scope: str
    teams: tuple[str, ...] | None
    name: str
    key: str = ""
    """Whose limits of requests and queries apply."""
    owner: bool = False
    """Whether the caller may read the data directory itself: it knows the secret that lies there."""
    token: Token | None = None
    """The token that gives this access, also through a session."""

    @property
    def reads(self) -> bool:
        return self.scope in ("read", "admin")

    @property
    def ingests(self) -> bool:
        return self.scope in ("ingest", "admin")


class Guard:
    """Turns requests into Access; remembers failures and rates, bounded."""

    def __init__(self, service: Service, clock: Clock, hosts: Collection[str] = ()) -> None:
        self._service = service
        self._hosts = LOCAL_NAMES | {host.lower() for host in hosts}
        self._tokens = Tokens(service.state)
        self.sessions = Sessions(service.state)
        self._failures = Buckets(FAILURES_PER_S, FAILURES_BURST, clock)
        self._requests = Buckets(REQUESTS_PER_S, REQUESTS_BURST, clock)
        self._limiter = CapacityLimiter(LOOKUPS_AT_ONCE)
        self._probes = CapacityLimiter(PROBES_AT_ONCE)

    async def access(self, request: Request) -> Access:
        """Raises ApiError: 401 without a valid token, 403 from an address that is not allowed, 429 for too many requests."""
        text, cookie = _presented(request)
        local = is_local(request, self._hosts)
        if text is not None and not cookie and _same(text, self._service.local_secret):
            if not local and not from_own_address(request):
                raise ApiError(403, "the local secret opens nothing from elsewhere")
            return self._paced(Access("admin", None, typed_by(_user(request)), owner=True), "local")
        token = None if text is None else await self._token(text, cookie)
        if token is not None:
            if cookie and request.method not in SAFE_METHODS and not same_origin(request):
                raise ApiError(403, "the request comes from another site")
            return self._paced(Access(token.scope, token.teams, token.name, token=token), token.id)
        # A browser may still have the cookie of another server on this machine: it says nothing here.
        if (text is None or cookie) and local and self._opens_to_loopback() and not await self.run(self._tokens.exist):
            return self._paced(Access("admin", None, sent_by(_user(request))), "loopback")
        if text is not None:
            raise self._wrong(request)
        hint = _PUBLIC_HINT if local and not self._opens_to_loopback() else None if local else _NEAR_HINT
        raise ApiError(401, "this needs a token", hint, headers=_CHALLENGE)

    async def _token(self, text: str, session: bool) -> Token | None:
        now_us = self._service.now_us()
        if not session:
            return await self.run(self._tokens.resolve, text, now_us)
        sso = self._service.plan.sso
        return await self.run(self.sessions.resolve, text, now_us, None if sso is None else sso.issuer)

    async def tokens_exist(self) -> bool:
        """Whether loopback alone opens nothing any more."""
        return await self.run(self._tokens.exist)

    async def trusted(self, request: Request) -> bool:
        """Whether names of the whole fleet may be shown: to local callers and to tokens for the whole fleet."""
        if _presented(request)[0] is None:
            return is_local(request, self._hosts) and self._opens_to_loopback()
        access = await self.access(request)
        return access.teams is None

    async def run(self, function: Callable[..., T], *arguments: object) -> T:
        """Calls a short function in a thread of its own few: probes and tokens do not wait behind questions."""
        return await to_thread.run_sync(lambda: function(*arguments), limiter=self._limiter)

    def _opens_to_loopback(self) -> bool:
        """Whether a caller on this machine may need no token. With a public URL, a proxy on this machine looks the same."""
        return not self._service.settings.public_url

    async def probe(self, function: Callable[..., T], *arguments: object) -> T:
        """The same in a thread for probes alone: look-ups of tokens may wait for the state's database."""
        return await to_thread.run_sync(lambda: function(*arguments), limiter=self._probes)

    def _wrong(self, request: Request) -> ApiError:
        return self.too_many(request) or ApiError(
            401,
            "the token is unknown, revoked or expired, or the session has ended",
            headers={"WWW-Authenticate": 'Bearer error="invalid_token"'},
        )

    def too_many(self, request: Request) -> ApiError | None:
        """Counts a failed attempt to sign in; the error 429 if the address had too many."""
        wait = self._failures.take(_address_key(request))
        return _too_often(wait, "too many wrong tokens or sign-ins from this address") if wait else None

    def _paced(self, access: Access, key: str) -> Access:
        wait = self._requests.take(key)
        if wait:
            raise _too_often(wait, "too many requests with this token")
        return replace(access, key=key)


def guard_of(request: Request) -> Guard:
    """The guard of the application."""
    return cast(Guard, request.app.state.guard)


async def anyone(request: Request) -> Access:
    """Any valid token, or loopback while there is none."""
    _known_parameters(request)
    access = await guard_of(request).access(request)
    request.scope[CALLER] = access.key
    return access


async def reader(request: Request) -> Access:
    """Scope read or admin, when it is the caller's turn; the rows are those of its teams."""
    access = await _reads(request)
    await take_for(request.scope, cast(Turns, request.app.state.questions), access.key)
    return access


async def tester(request: Request) -> Access:
    """The same for a back-test, which also takes one of the few turns for these."""
    access = await _reads(request)
    await take_for(request.scope, cast(Turns, request.app.state.backtests), access.key)
    await take_for(request.scope, cast(Turns, request.app.state.questions), access.key)
    return access


async def _reads(request: Request) -> Access:
    access = await anyone(request)
    if not access.reads:
        raise ApiError(403, f"scope {access.scope} may not read")
    if request.method not in SAFE_METHODS:
        await request.body()  # A turn must not wait for a slow body.
    return access


async def fleet_reader(request: Request) -> Access:
    """Scope read or admin, not bound to teams: what has no team cannot be filtered by one."""
    access = await reader(request)
    if access.teams is not None:
        raise TeamScope("this route covers the whole fleet, and the token is bound to teams")
    return access


async def admin(request: Request) -> Access:
    """Scope admin."""
    access = await anyone(request)
    if access.scope != "admin":
        raise ApiError(403, f"scope {access.scope} may not change this")
    return access


async def ingester(request: Request) -> Access:
    """Scope ingest or admin."""
    access = await anyone(request)
    if not access.ingests:
        raise ApiError(403, f"scope {access.scope} may not send data")
    return access


Anyone = Annotated[Access, Depends(anyone)]
Reader = Annotated[Access, Depends(reader)]
Tester = Annotated[Access, Depends(tester)]
FleetReader = Annotated[Access, Depends(fleet_reader)]
Admin = Annotated[Access, Depends(admin)]
Ingester = Annotated[Access, Depends(ingester)]


def _presented(request: Request) -> tuple[str | None, bool]:
    """(token text or session id, whether a cookie brought it). A header that is no bearer token counts as a wrong token."""
    header = request.headers.get("authorization")
    if header is not None:
        scheme, _, value = header.partition(" ")
        return (value.strip() if scheme.lower() == "bearer" else ""), False
    cookie = request.cookies.get(COOKIE)
    return (None, False) if not cookie else (cookie, True)


def _user(request: Request) -> str | None:
    """The name that a local caller gives. It is not verified and grants no rights."""
    return decoded(request.headers.get(HEADER))


def _same(text: str, secret: str) -> bool:
    return bool(secret) and compare_digest(text.encode(), secret.encode())


def _address_key(request: Request) -> str:
    """The client's address; of IPv6 its /64, which one client has whole."""
    host = request.client.host if request.client is not None else ""
    try:
        parsed = ipaddress.ip_address(host)
    except ValueError:
        return host[:100]
    if isinstance(parsed, ipaddress.IPv6Address) and parsed.ipv4_mapped is None:
        return str(ipaddress.ip_network((parsed, 64), strict=False))
    return str(parsed)


def _too_often(wait_s: float, message: str) -> ApiError:
    return ApiError(429, message, headers={"Retry-After": str(max(1, ceil(wait_s)))})


def _known_parameters(request: Request) -> None:
    """Refuses a query parameter that the route does not have: a misspelt filter would show everything."""
    known = request.app.state.parameters.get(request.scope.get("endpoint"))
    if known is None:
        return
    for name in request.query_params:
        if name not in known:
            listed = ", ".join(sorted(known)) or "none"
            raise ApiError(400, f"{name[:100]}: not a parameter of this route; known: {listed}", field=name[:100])
    for name, repeatable in known.items():
        if not repeatable and len(request.query_params.getlist(name)) > 1:
            raise ApiError(400, f"{name}: given more than once", field=name)
