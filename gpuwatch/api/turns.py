"""Who goes next: callers wait in a bounded queue each, and are served in rotation."""

from __future__ import annotations

import asyncio
from collections import OrderedDict, deque
from collections.abc import Callable
from dataclasses import dataclass, field

from starlette.types import ASGIApp, Message, Receive, Scope, Send

from gpuwatch.api.errors import BUSY_RETRY_S, ApiError

WAITING_MAX = 256
"""Requests of one caller that wait for their turn."""
WAITING_IN_ALL_MAX = 2_000
WAIT_S = 20.0
"""How long a request waits for its turn."""
_HELD = "gpuwatch.turns"


@dataclass
class _Caller:
    running: int = 0
    waiting: deque[tuple[int, asyncio.Future[None]]] = field(default_factory=deque)


class Turns:
    """A capacity that callers share: each may use `each` of it at a time, and those that wait take turns.

    Used from the event loop only. `what` names the limit in the 429 for a caller that waits too long.
    """

    def __init__(self, capacity: int, each: Callable[[], int], what: Callable[[], str], wait_s: float = WAIT_S) -> None:
        self.free = capacity
        self._each, self._what, self._wait_s = each, what, wait_s
        self._callers: OrderedDict[str, _Caller] = OrderedDict()
        """The next one first; without those that neither run nor wait."""
        self._waiting = 0

    async def take(self, caller: str, weight: int = 1) -> None:
        """Returns when it is this caller's turn. Raises ApiError 429 if its queue is full, or it waits too long."""
        entry = self._callers.setdefault(caller, _Caller())
        if len(entry.waiting) >= WAITING_MAX or self._waiting >= WAITING_IN_ALL_MAX:
            self._forget(caller, entry)
            raise self._refusal()
        turn: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        entry.waiting.append((weight, turn))
        self._waiting += 1
        self._next()
        try:
            async with asyncio.timeout(self._wait_s):
                await asyncio.shield(turn)
        except BaseException as error:
            if turn.done():
                self.give(caller, weight)
            else:
                turn.cancel()
                entry.waiting.remove((weight, turn))
                self._waiting -= 1
                self._forget(caller, entry)
                self._next()
            if isinstance(error, TimeoutError):
                raise self._refusal() from None
            raise

    def give(self, caller: str, weight: int = 1) -> None:
        """Ends a turn, and begins those that now fit."""
        entry = self._callers[caller]
        entry.running -= weight
        self.free += weight
        self._forget(caller, entry)
        self._next()

    def _next(self) -> None:
        """Begins waiting turns in rotation. One that does not fit yet keeps its place, so that large ones get theirs."""
        again = True
        while again:
            again = False
            for caller, entry in list(self._callers.items()):
                if not entry.waiting:
                    continue
                weight, turn = entry.waiting[0]
                # A caller that has nothing running may always take one, however low its limit is.
                if entry.running and entry.running + weight > self._each():
                    continue
                if weight > self.free:
                    return
                entry.waiting.popleft()
                self._waiting -= 1
                entry.running += weight
                self.free -= weight
                self._callers.move_to_end(caller)
                turn.set_result(None)
                again = True
                break

    def _forget(self, caller: str, entry: _Caller) -> None:
        if not entry.running and not entry.waiting:
            self._callers.pop(caller, None)

    def _refusal(self) -> ApiError:
        return ApiError(
            429, self._what(), "wait as long as Retry-After says", headers={"Retry-After": str(BUSY_RETRY_S)}
        )


class Released:
    """ASGI: ends the turns that a request took (see `take_for`) when its answer begins, or when it ends without one."""

    def __init__(self, app: ASGIApp) -> None:
        self._app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        held: list[tuple[Turns, str]] = []
        scope[_HELD] = held

        async def answer(message: Message) -> None:
            if message["type"] == "http.response.start":
                _release(held)
            await send(message)

        try:
            await self._app(scope, receive, answer)
        finally:
            _release(held)


async def take_for(scope: Scope, turns: Turns, caller: str) -> None:
    """Takes a turn for the rest of a request."""
    await turns.take(caller)
    scope[_HELD].append((turns, caller))


def _release(held: list[tuple[Turns, str]]) -> None:
    while held:
        turns, caller = held.pop()
        turns.give(caller)
