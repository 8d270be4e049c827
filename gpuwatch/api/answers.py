"""Answers that are given again while what they were made from is unchanged: the same bytes, for the same question and teams."""

from __future__ import annotations

import threading
from collections import Counter
from collections.abc import Callable, Hashable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, cast

from pydantic_core import to_json
from starlette.requests import Request
from starlette.responses import Response

from gpuwatch.service.answering import ANSWER
from gpuwatch.store import answer_cache

if TYPE_CHECKING:
    from gpuwatch.api.auth import Access
    from gpuwatch.service.service import Service
    from gpuwatch.store.database import Store

BYTES_MAX = 64 << 20
"""Bytes of all answers that are kept."""
ONE_BYTES_MAX = 4 << 20
"""Bytes of the largest answer that is kept."""


@dataclass(frozen=True)
class _Kept:
    body: bytes
    state: str
    """The version of the state that it was made from."""
    tables: frozenset[str]
    counts: Counter[str]
    """The tables of the store that it was made from, and how often each had changed."""

    def holds(self, state: str, counts: Counter[str]) -> bool:
        return self.state == state and all(self.counts[name] == counts[name] for name in self.tables)


@dataclass
class _Turn:
    lock: threading.Lock = field(default_factory=threading.Lock)
    users: int = 0


class Answers:
    """Bodies of answers, by question. Bounded by bytes."""

    def __init__(self, bytes_max: int = BYTES_MAX, one_max: int = ONE_BYTES_MAX) -> None:
        self._one_max = one_max
        self._kept: answer_cache.Answers[_Kept] = answer_cache.Answers(bytes_max, lambda kept: len(kept.body))
        self._lock = threading.Lock()
        self._turns: dict[Hashable, _Turn] = {}

    def body(self, service: Service, key: Hashable, make: Callable[[Store], Any]) -> bytes:
        """The answer to a question as JSON. It depends on nothing but `key`, the store and the state.

        Those who ask the same at the same time wait for the first.
        """
        with self._turn(key):
            state, as_of_us = service.state.version(), _as_of_us(service)
            counts = service.store.changes.counts()
            kept = self._kept.find(key)
            if kept is not None and state is not None and kept.holds(state, counts):
                if as_of_us is not None and (answer := ANSWER.get()) is not None:
                    answer.as_of_us = as_of_us  # nothing has changed until then
                return kept.body
            with service.reader() as store, store.reading() as tables:
                content = make(store)
            body = to_json(content, inf_nan_mode="null")
            if state is not None and len(body) <= self._one_max:
                self._kept.keep(key, _Kept(body, state, frozenset(tables), counts))
            elif state is not None:
                self._kept.drop(key)
            return body

    @property
    def bytes(self) -> int:
        """Bytes of what is kept."""
        return self._kept.size

    @contextmanager
    def _turn(self, key: Hashable) -> Iterator[None]:
        """One thread at a time for each question."""
        with self._lock:
            turn = self._turns.setdefault(key, _Turn())
            turn.users += 1
        try:
            with turn.lock:
                yield
        finally:
            with self._lock:
                turn.users -= 1
                if not turn.users:
                    del self._turns[key]


def _as_of_us(service: Service) -> int | None:
    """Until when everything that was published is in a replica's copy; None for a process with data of its own."""
    return None if service.mirror is None else service.mirror.status.as_of_us


def kept(request: Request, access: Access, service: Service, make: Callable[[Store], Any], *also: Hashable) -> Response:
    """JSON of what `make` returns, from memory where nothing changed since.

    The question is the route with its parameters, the teams and scope of the caller, and `also`: everything else that `make`
    depends on apart from the store and the state, such as the window or the time.
    """
    route = getattr(request.scope.get("route"), "path", request.url.path)
    key = (
        route,
        tuple(sorted(request.path_params.items())),
        tuple(sorted(request.query_params.multi_items())),
        access.teams,
        access.scope,
        *also,
    )
    answers = cast(Answers, request.app.state.answers)
    return Response(answers.body(service, key, make), media_type="application/json")
