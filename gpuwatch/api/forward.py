"""Passes data on to the process that holds their cell, once: senders may use any process of the fleet.

Not by a redirect: every sender would have to reach every cell, some drop their token on the way to another host, and others
follow none.
"""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

from fastapi import Request
from starlette.responses import Response

from gpuwatch.api.auth import Access, guard_of
from gpuwatch.api.common import PREFIX
from gpuwatch.api.errors import BUSY_RETRY_S, HOLDER, ApiError
from gpuwatch.core.errors import NotHolder

if TYPE_CHECKING:
    import httpx

    from gpuwatch.service.routing import Routing

DATA_PATHS = frozenset(f"{PREFIX}/{path}" for path in ("write", "events", "otlp/v1/metrics"))
"""Of the routes that take the data of one cluster."""
CLUSTER_DEFAULT = "default"
CLUSTER_HEADER = "X-Gpuwatch-Cluster"
HOP = "Gpuwatch-Forwarded"
"""The header of a request that was passed on; it is not passed on again."""
CONNECT_S, POOL_S, SEND_S = 3.0, 10.0, 30.0
ANSWER_S = 65.0
"""Longer than the holder waits for its disk, so that its answer is the one that counts."""
CONNECTIONS_MAX = 64
IDLE_S = 30.0
"""An idle connection is closed before the holder does."""
ANSWER_BYTES_MAX = 64 * 1024
PASSED = ("authorization", "content-type", "content-encoding", "user-agent", CLUSTER_HEADER.lower())
"""Headers of a request that go along, and those of PASSED_PREFIX."""
RETURNED = ("content-type", "retry-after", "www-authenticate", "x-gpuwatch-rejected")
PASSED_PREFIX = "x-prometheus-remote-write-"


class Forwarder:
    """Keeps connections to the holders. Used from an event loop."""

    def __init__(self, routing: Routing) -> None:
        self.routing = routing
        self._loop: asyncio.AbstractEventLoop | None = None
        self._client: httpx.AsyncClient | None = None

    async def send(self, request: Request, address: str) -> Response:
        """The holder's answer. Raises NotHolder as `check` does, ApiError 503 where the holder does not answer."""
        check(request, address)
        import httpx

        body = await request.body()
        query = request.scope.get("query_string", b"").decode("latin-1")
        url = f"{address.rstrip('/')}{request.url.path}{'?' if query else ''}{query}"
        headers = {name: value for name, value in request.headers.items() if _goes_along(name, PASSED)}
        # Any holder then asks for the token, even one on this machine, which lets local callers in without.
        headers |= {"Via": "1.1 gpuwatch", HOP: "1", "Accept-Encoding": "identity"}
        try:
            async with (
                asyncio.timeout(ANSWER_S + SEND_S),
                self._connected().stream(request.method, url, content=body, headers=headers) as answer,
            ):
                content = b""
                async for part in answer.aiter_raw():
                    content += part
                    if len(content) > ANSWER_BYTES_MAX:
                        raise _unreached(address, f"answered with more than {ANSWER_BYTES_MAX} bytes")
        except httpx.PoolTimeout:
            raise _unreached(address, f"has {CONNECTIONS_MAX} requests of this process already") from None
        except (httpx.HTTPError, httpx.InvalidURL, TimeoutError, OSError) as error:
            self.routing.forget()
            raise _unreached(address, f"did not answer: {str(error) or type(error).__name__}") from error
        if 300 <= answer.status_code < 400:
            raise _unreached(address, f"answered {answer.status_code}; correct [lake] address of that process")
        if answer.status_code == 503:
            self.routing.forget()
        returned = {name: value for name, value in answer.headers.items() if _goes_along(name, RETURNED)}
        return Response(content, answer.status_code, {**returned, HOLDER: address})

    def _connected(self) -> httpx.AsyncClient:
        import httpx

        loop = asyncio.get_running_loop()
        if self._client is None or self._loop is not loop:
            limits = httpx.Limits(max_connections=CONNECTIONS_MAX, keepalive_expiry=IDLE_S)
            timeout = httpx.Timeout(ANSWER_S, connect=CONNECT_S, write=SEND_S, pool=POOL_S)
            # Its own variables may name a private authority; a proxy for the way out is not for processes of the fleet.
            authorities = httpx.create_ssl_context(trust_env=True)
            self._loop = loop
            self._client = httpx.AsyncClient(timeout=timeout, limits=limits, verify=authorities, trust_env=False)
        return self._client


def cluster_of(request: Request) -> str:
    """The cluster that the data of a request come from, as its sender says."""
    return request.query_params.get("cluster") or request.headers.get(CLUSTER_HEADER) or CLUSTER_DEFAULT


async def passed_on(request: Request, access: Access) -> Response | None:
    """The answer of the process that has a cluster; None: this one takes its data."""
    forwarder: Forwarder | None = request.app.state.forwarder
    if forwarder is None or forwarder.routing.is_here(cluster := cluster_of(request)):
        return None
    address = await guard_of(request).run(forwarder.routing.elsewhere, cluster)
    if address is None:
        return None
    if access.token is None:
        raise _without_token(address)
    return await forwarder.send(request, address)


def check(request: Request, address: str) -> None:
    """Raises NotHolder for a request without a token, and for one that was passed on already."""
    if HOP in request.headers:
        raise NotHolder(f"this process no longer holds the cell of these data: send them to {address}", address)
    if "authorization" not in request.headers:
        raise _without_token(address)


def _without_token(address: str) -> NotHolder:
    """Not 401: senders drop what is answered so, and the holder may let a caller on its own machine in."""
    return NotHolder(f"another process has the cluster: send it to {address}; with a token it is passed on", address)


def _unreached(address: str, why: str) -> ApiError:
    words = f"{address}, which has the cluster, {why}"
    return ApiError(503, words, headers={"Retry-After": str(BUSY_RETRY_S)}, code="not_holder")


def _goes_along(name: str, names: tuple[str, ...]) -> bool:
    return name.lower() in names or name.lower().startswith(PASSED_PREFIX)
