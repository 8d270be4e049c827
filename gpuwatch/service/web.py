"""The web server: uvicorn with a bound on how long a client may take to say what it wants."""

from __future__ import annotations

import asyncio
import ipaddress
import resource
from typing import Any

import uvicorn
from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol

HEADERS_S = 10.0
"""A connection that has not sent a whole request head by then is closed."""
HEAD_BYTES_MAX = 64 * 1024
"""Bytes of a request that are not its body (head, chunk frames, trailers); more end the connection."""
FRAME_BYTES = 8
"""What the frames of the smallest chunks cost a byte of body."""
PIPELINED_MAX = 64
"""Requests that may wait behind the one being answered on a connection."""
UNREAD_S = 60.0
"""A client that takes nothing of its answer for so long is gone."""
KEEP_ALIVE_S = 75
CONNECTIONS_MAX = 5_000
STOP_S = 10
FILES_WANTED = 65_536


class Protocol(HttpToolsProtocol):
    """Ends connections that send the head of a request slowly (slow-loris), or more beside its body than it needs."""

    _deadline: asyncio.TimerHandle | None = None
    _unread: asyncio.TimerHandle | None = None
    _overhead = 0

    def connection_made(self, transport: Any) -> None:
        """Starts the clock."""
        super().connection_made(transport)
        self._deadline = self.loop.call_later(HEADERS_S, transport.close)

    def data_received(self, data: bytes) -> None:
        """Counts what is not body: the parser keeps all of it."""
        self._overhead += len(data)
        super().data_received(data)
        if self._overhead > HEAD_BYTES_MAX:
            self.transport.abort()

    def on_message_begin(self) -> None:
        """The head of a further request on the connection has begun."""
        super().on_message_begin()
        self._overhead = 0
        if self._deadline is None:
            self._deadline = self.loop.call_later(HEADERS_S, self.transport.close)

    def on_headers_complete(self) -> None:
        """The head is whole: from here the application's own time limits hold."""
        self._stop_clock()
        super().on_headers_complete()
        if len(self.pipeline) > PIPELINED_MAX:
            raise ValueError(f"more than {PIPELINED_MAX} requests wait on one connection")

    def on_body(self, body: bytes) -> None:
        """Body is bounded by the application."""
        self._overhead = max(0, self._overhead - FRAME_BYTES * len(body))
        super().on_body(body)

    def pause_writing(self) -> None:
        """The client takes nothing: its answer waits in memory."""
        super().pause_writing()
        if self._unread is None:
            self._unread = self.loop.call_later(UNREAD_S, self.transport.abort)

    def resume_writing(self) -> None:
        """It takes again."""
        super().resume_writing()
        self._stop_unread()

    def connection_lost(self, exc: Exception | None) -> None:
        """Nothing to wait for, and nobody to answer."""
        self._stop_clock()
        self._stop_unread()
        for cycle, _ in self.pipeline:
            cycle.disconnected = True
        self.pipeline.clear()
        super().connection_lost(exc)

    def _stop_unread(self) -> None:
        if self._unread is not None:
            self._unread.cancel()
            self._unread = None

    def _stop_clock(self) -> None:
        if self._deadline is not None:
            self._deadline.cancel()
            self._deadline = None


def server(app: Any, host: str, port: int) -> uvicorn.Server:
    """A server for an ASGI application; call `run(sockets=[...])` on it. Times and sizes are bounded."""
    return uvicorn.Server(
        uvicorn.Config(
            app,
            host=host,
            port=port,
            http=Protocol,
            ws="none",
            lifespan="off",
            log_config=None,
            access_log=False,
            server_header=False,
            proxy_headers=False,
            timeout_keep_alive=KEEP_ALIVE_S,
            timeout_graceful_shutdown=STOP_S,
            limit_concurrency=CONNECTIONS_MAX,
        )
    )


def is_loopback(host: str) -> bool:
    """Whether a host to bind to can be reached from this machine only."""
    if host == "localhost":
        return True
    try:
        return ipaddress.ip_address(host.strip("[]")).is_loopback
    except ValueError:
        return False


def raise_file_limit() -> None:
    """Lets the process hold as many connections as the system allows: one a node that is scraped, and the clients."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    wanted = FILES_WANTED if hard == resource.RLIM_INFINITY else min(FILES_WANTED, hard)
    if soft < wanted:
        resource.setrlimit(resource.RLIMIT_NOFILE, (wanted, hard))
