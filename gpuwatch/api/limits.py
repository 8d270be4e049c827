"""Bounds on what a client may send: size, time, rate."""

from __future__ import annotations

import asyncio
from collections import Counter, OrderedDict
from collections.abc import Callable
from threading import Lock

from starlette.types import ASGIApp, Message, Receive, Scope, Send

from gpuwatch.api.errors import BUSY_RETRY_S, ApiError, encoded
from gpuwatch.imports.uploads import FILE_BYTES_MAX

MIB = 1 << 20
BODY_MAX = MIB
BODY_MAX_BY_PATH = {
    "/api/v1/write": 32 * MIB,
    "/api/v1/otlp/": 32 * MIB,
    "/api/v1/events": 32 * MIB,
    "/api/v1/bills": FILE_BYTES_MAX,
    "/ui/": 8 * MIB,
}
"""Bytes of a body as sent, by the beginning of the path; BODY_MAX elsewhere."""
STREAMED = ("/api/v1/bills",)
"""How paths begin whose bodies go to disk as they arrive: of these only the piece at hand is held."""
DECOMPRESSED_MAX = 32 * MIB
"""Bytes of a body once decompressed."""
IN_FLIGHT_MAX = 56 * MIB
"""Bytes of bodies, as sent, that all requests together may hold at a time."""
IN_FLIGHT_EACH_MAX = 40 * MIB
"""The same of one token: one body of the largest size and small ones beside it, so that others can send meanwhile."""
CALLER = "gpuwatch.caller"
"""Key of a request's scope: the token whose body it is."""
DROPPED_MAX = 256 * MIB
"""Bytes of a refused body that are read and forgotten, so that its sender sees the refusal."""
BODY_SECONDS_MAX = 30.0
"""How long a body may take to arrive."""
STREAM_SECONDS_MAX = 600.0
"""The same for those of STREAMED."""
HEADERS_MAX = 32 * 1024
QUERY_MAX = 8 * 1024

Clock = Callable[[], float]


class Buckets:
    """Token buckets by key, the least recently used forgotten beyond `keys_max`. Safe in threads."""

    def __init__(self, rate_per_s: float, burst: float, clock: Clock, keys_max: int = 10_000) -> None:
        self._rate, self._burst, self._clock, self._keys_max = rate_per_s, burst, clock, keys_max
        self._levels: OrderedDict[str, tuple[float, float]] = OrderedDict()
        self._lock = Lock()

    def take(self, key: str) -> float:
        """Takes one; 0.0, or the seconds until there is one again."""
        now = self._clock()
        with self._lock:
            level, at = self._levels.pop(key, (self._burst, now))
            level = min(self._burst, level + (now - at) * self._rate)
            wait = 0.0 if level >= 1 else (1 - level) / self._rate
            self._levels[key] = (level if wait else level - 1, now)
            if len(self._levels) > self._keys_max:
                self._levels.popitem(last=False)
        return wait


class InFlight:
    """Bytes that requests hold together. Used from the event loop only."""

    def __init__(self, most: int = IN_FLIGHT_MAX, each: int = IN_FLIGHT_EACH_MAX) -> None:
        self._most, self._each = most, each
        self._by_caller: Counter[str] = Counter()
        self.held = 0

    def add(self, count: int, caller: str) -> None:
        """Raises ApiError 503 when there is no room."""
        if self.held + count > self._most or self._by_caller[caller] + count > self._each:
            raise ApiError(
                503,
                f"more than {self._most} bytes of bodies are being received at once, or {self._each} of one token",
                headers={"Retry-After": str(BUSY_RETRY_S)},
                code="busy",
            )
        self.held += count
        self._by_caller[caller] += count

    def drop(self, count: int, caller: str) -> None:
        """Gives room back."""
        self.held -= count
        self._by_caller[caller] -= count
        if not self._by_caller[caller]:
            del self._by_caller[caller]


class Bounds:
    """ASGI: refuses large headers and bodies, bodies that arrive too slowly, and more bytes at once than fit."""

    def __init__(self, app: ASGIApp, in_flight: InFlight, body_seconds: float = BODY_SECONDS_MAX) -> None:
        self._app, self._in_flight, self._seconds = app, in_flight, body_seconds

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        most = body_max(scope["path"])
        streamed = scope["path"].startswith(STREAMED)
        seconds = STREAM_SECONDS_MAX if streamed else self._seconds
        body = _Body(scope, receive, most, self._in_flight, seconds, streamed)
        try:
            refusal = _refusal(scope, most)
            if refusal is None:
                await self._app(scope, body.receive, body.answering(send))
            else:
                body.waits = not any(name == b"expect" for name, _ in scope["headers"])
                await _refuse(body.answering(send), *refusal)
        finally:
            body.forget()


class _Body:
    """The body of one request as it arrives, counted and timed."""

    def __init__(
        self, scope: Scope, receive: Receive, most: int, in_flight: InFlight, seconds: float, streamed: bool
    ) -> None:
        self._scope, self._receive, self._most = scope, receive, most
        self._in_flight, self._seconds = in_flight, seconds
        self._streamed = streamed
        self._arrived = 0
        self._complete = False
        self._deadline: float | None = None
        self._held = 0
        self._caller = ""
        self.waits = False
        """Whether a refused sender may still be sending, so that the connection must not be closed at once."""

    async def receive(self) -> Message:
        """The next piece; ApiError 408, 413 or 503 for what is too slow, too much, or too much at once."""
        if self._complete:
            return await self._receive()
        try:
            async with asyncio.timeout_at(self._until()):
                message = await self._receive()
        except TimeoutError:
            raise ApiError(
                408, f"the body took longer than {self._seconds:g} s", headers={"Connection": "close"}
            ) from None
        if message["type"] == "http.request":
            size = len(message.get("body", b""))
            self._complete = not message.get("more_body", False)
            if self._arrived + size > self._most:
                self.waits = True
                raise ApiError(413, _too_large(self._most), headers={"Connection": "close"})
            self._arrived += size
            if self._streamed:
                self.forget()
            if not self._held:
                self._caller = self._scope.get(CALLER, "")
            self._in_flight.add(size, self._caller)
            self._held += size
        return message

    def forget(self) -> None:
        """The body no longer counts: it is stored, or given up."""
        self._in_flight.drop(self._held, self._caller)
        self._held = 0

    def answering(self, send: Send) -> Send:
        """`send`, but a refusal is ended only when the sender has stopped: a connection that is closed with unread bytes
        is reset, and the sender never sees why.
        """

        async def answer(message: Message) -> None:
            if not self.waits or message["type"] != "http.response.body" or message.get("more_body", False):
                await send(message)
                return
            await send({**message, "more_body": True})
            await self._drop()
            await send({"type": "http.response.body", "body": b""})

        return answer

    async def _drop(self) -> None:
        """Reads and forgets what still comes, within the time of a body and DROPPED_MAX."""
        dropped = 0
        try:
            async with asyncio.timeout_at(self._until()):
                while not self._complete and dropped < DROPPED_MAX:
                    message = await self._receive()
                    dropped += len(message.get("body", b""))
                    self._complete = message["type"] != "http.request" or not message.get("more_body", False)
        except TimeoutError:
            return

    def _until(self) -> float:
        if self._deadline is None:
            self._deadline = asyncio.get_running_loop().time() + self._seconds
        return self._deadline


def body_max(path: str) -> int:
    """Bytes that a body sent to a path may have."""
    return next((most for start, most in BODY_MAX_BY_PATH.items() if path.startswith(start)), BODY_MAX)


def _refusal(scope: Scope, most: int) -> tuple[int, str] | None:
    """Status and sentence for a request that its first lines show to be too large."""
    if sum(len(name) + len(value) + 4 for name, value in scope["headers"]) > HEADERS_MAX:
        return 431, f"the headers have more than {HEADERS_MAX} bytes"
    if len(scope.get("query_string", b"")) > QUERY_MAX:
        return 414, f"the query has more than {QUERY_MAX} bytes"
    if sum(name == b"host" for name, _ in scope["headers"]) > 1:
        return 400, "the header Host is there more than once"
    length = next((value for name, value in scope["headers"] if name == b"content-length"), b"0")
    if not length.isdigit():
        return 400, "the header Content-Length is not a number"
    return (413, _too_large(most)) if len(length) > 18 or int(length) > most else None


def _too_large(most: int) -> str:
    return f"the body has more than {most} bytes"


async def _refuse(send: Send, status: int, message: str) -> None:
    body, headers = encoded(status, message)
    await send({"type": "http.response.start", "status": status, "headers": [*headers, (b"connection", b"close")]})
    await send({"type": "http.response.body", "body": body})
