"""The web server: uvicorn with limits on slow clients."""

from __future__ import annotations

import asyncio
import ipaddress
import resource
from typing import Any

import uvicorn
from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol

HEADERS_S = 10.0
"""A connection that has not sent a complete request head by then is closed."""
HEAD_BYTES_MAX = 64 * 1024
"""Limit of request bytes outside the body (head, chunk frames, trailers)."""
FRAME_BYTES = 8
"""Framing overhead per body byte with the smallest chunks."""
PIPELINED_MAX = 64
"""Limit of pipelined requests waiting on a connection."""
UNREAD_S = 60.0
"""A client that reads nothing of its response for this long is disconnected."""
KEEP_ALIVE_S = 75
CONNECTIONS_MAX = 5_000
STOP_S = 10
FILES_WANTED = 65_536


class Protocol(HttpToolsProtocol):
    """Closes connections that send a request head slowly (slow-loris) or too many bytes outside the body."""

    _deadline: asyncio.TimerHandle | None = None
    _unread: asyncio.TimerHandle | None = None
    _overhead = 0

    def connection_made(self, transport: Any) -> None:
        """Starts the clock."""
        super().connection_made(transport)
        self._deadline = self.loop.call_later(HEADERS_S, transport.close)

    def data_received(self, data: bytes) -> None:
        """Counts bytes outside the body, because the parser keeps them in memory."""
        self._overhead += len(data)
        super().data_received(data)
        if self._overhead > HEAD_BYTES_MAX:
            self.transport.abort()

    def on_message_begin(self) -> None:
        """The head of another request on the connection has started."""
        super().on_message_begin()
        self._overhead = 0
        if self._deadline is None:
            self._deadline = self.loop.call_later(HEADERS_S, self.transport.close)

    def on_headers_complete(self) -> None:
        """The head is complete; from here the application's time limits apply."""
        self._stop_clock()
        super().on_headers_complete()
        if len(self.pipeline) > PIPELINED_MAX:
            raise ValueError(f"more than {PIPELINED_MAX} requests wait on one connection")

    def on_body(self, body: bytes) -> None:
        """The application limits the body."""
        self._overhead = max(0, self._overhead - FRAME_BYTES * len(body))
        super().on_body(body)

    def pause_writing(self) -> None:
        """The client stopped reading, so its response waits in memory."""
        super().pause_writing()
        if self._unread is None:
            self._unread = self.loop.call_later(UNREAD_S, self.transport.abort)

    def resume_writing(self) -> None:
        """The client reads again."""
        super().resume_writing()
        self._stop_unread()

    def connection_lost(self, exc: Exception | None) -> None:
        """Cancels the timers."""
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
    """A server for an ASGI application with limits on times and sizes; call `run(sockets=[...])` on it."""
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
    """Whether a bind address is reachable from this machine only."""
    if host == "localhost":
        return True
    try:
        return ipaddress.ip_address(host.strip("[]")).is_loopback
    except ValueError:
        return False


def raise_file_limit() -> None:
    """Raises the limit of open files to the maximum, for one connection per scraped node plus the clients."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    wanted = FILES_WANTED if hard == resource.RLIM_INFINITY else min(FILES_WANTED, hard)
    if soft < wanted:
        resource.setrlimit(resource.RLIMIT_NOFILE, (wanted, hard))
