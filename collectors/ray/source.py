"""Live source `ray`: the head of a Ray cluster asked again and again who holds which GPUs."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping, Sequence
from typing import Any
from zoneinfo import ZoneInfo

from gpuwatch.collectors.ray.changes import Book
from gpuwatch.collectors.ray.files import batches, inside
from gpuwatch.collectors.ray.gpu_holders import actor_of
from gpuwatch.collectors.ray.paths import IDS_A_QUESTION, JOBS, LIMIT, NODES, VERSION, actors_by_id, listing
from gpuwatch.collectors.ray.rows import Picture, picture, rows
from gpuwatch.collectors.ray.state import Told
from gpuwatch.collectors.shared.http_json import NOWHERE, Access, Client, access_of
from gpuwatch.collectors.shared.json_stream import Piece
from gpuwatch.collectors.shared.live_options import Options
from gpuwatch.collectors.shared.live_rounds import rounds
from gpuwatch.collectors.shared.live_write import write
from gpuwatch.core.errors import GpuwatchError, SourceUnreachable
from gpuwatch.core.model import Rejects
from gpuwatch.core.registry import LiveSource, Sink, live

MAX_HEADS = 1000
MAX_ASKED_ACTORS = LIMIT
"""Actors whose start and end are asked for by id in one poll: all that a list can hold."""
UTC = ZoneInfo("UTC")

LISTS = {
    "nodes": listing("nodes"),
    "groups": listing("placement_groups", ("state", "!=", "REMOVED")),
    "actors": listing("actors", ("state", "!=", "DEAD")),
    # One that runs must not be lost behind thousands that have ended: it is asked for by its state.
    "tasks": listing("tasks", ("type", "=", "NORMAL_TASK"), ("state", "=", "RUNNING")),
    "waiting": listing("tasks", ("type", "=", "NORMAL_TASK"), ("state", "=", "PENDING_NODE_ASSIGNMENT")),
    "finished": listing("tasks", ("type", "=", "NORMAL_TASK"), ("state", "=", "FINISHED")),
    "failed": listing("tasks", ("type", "=", "NORMAL_TASK"), ("state", "=", "FAILED")),
    "creations": listing("tasks", ("type", "=", "ACTOR_CREATION_TASK")),
}
CUT = {"groups": "group", "actors": "actor", "tasks": "task"}
"""Lists of what holds GPUs now, and the kind of holder in each."""


@live("ray", "Ray: nodes, jobs, placement groups, actors and tasks, asked from the dashboard of a head")
def configure(tables: Sequence[Mapping[str, Any]], problems: list[str]) -> Sequence[LiveSource]:
    """One source a `[[ray]]` table; several heads may stand in one cluster."""
    sources: dict[str, RaySource] = {}
    if len(tables) > MAX_HEADS:
        problems.append(f"[[ray]]: more than {MAX_HEADS} tables")
    for number, table in enumerate(tables[:MAX_HEADS], start=1):
        options = Options(table, f"[[ray]] {number}", problems)
        cluster = options.text("cluster", "default")
        interval_s = options.number("interval_s", 15, 1, 3600)
        access = access_of(options, "the Ray head", "[[ray]]", "http://ray-head:8265", {}, 30)
        options.finish()
        if not cluster:
            options.wrong("cluster", "must not be empty")
        if access.url in sources and access.url != NOWHERE:
            options.wrong("url", "must differ from the other [[ray]] tables")
        sources[access.url] = RaySource(cluster, interval_s, access)
    return list(sources.values())


class RaySource:
    """One Ray head, polled through its dashboard."""

    kind = "ray"

    def __init__(self, cluster: str, interval_s: float, access: Access) -> None:
        self.name = f"ray {access.url}"
        self.cluster = cluster
        self.interval_s = interval_s
        self.access = access
        self._book: Book | None = None
        self._session: str | None = None
        self._refused: dict[str, int] = {}

    async def run(self, sink: Sink, now_us: Callable[[], int]) -> None:
        """Polls for ever. Begins with what the store knows, also when it is started again."""
        self._book, self._session = None, None
        async with Client(self.access) as client:
            await rounds(lambda: self.poll(client, sink, now_us), self.interval_s, now_us)

    async def poll(self, client: Client, sink: Sink, now_us: Callable[[], int]) -> bool:
        """One round: asks, writes the news, tells the sink how it went. False when the head did not answer."""
        try:
            told, cut, rejects = await self._asked(client, now_us)
            seen = await asyncio.to_thread(picture, told, self.name, rejects)
            book, news = await self._begun(seen, sink)
            if missing := sorted(book.units() - {unit.uid for unit in seen.units})[:MAX_ASKED_ACTORS]:
                # Actors that are listed no more: when they ended, the dashboard still knows.
                await self._by_id(
                    client, sorted({actor for unit in missing if (actor := actor_of(unit))}), told, rejects
                )
                seen = await asyncio.to_thread(picture, told, self.name, Rejects())
            news += book.news(rows(seen, self.name, rejects), seen, cut, seen.at_us or now_us(), rejects)
            await write(sink, self.name, list(batches(news, self.cluster)), self._fresh(rejects), now_us)
        except GpuwatchError as error:
            sink.failed(self.name, now_us(), str(error))
            return False
        sink.succeeded(self.name, now_us(), sum(len(listed) for listed in told.items.values()))
        return True

    async def _asked(self, client: Client, now_us: Callable[[], int]) -> tuple[Told, set[str], Rejects]:
        """Everything that a head says now, and the kinds of holder of which its limit left out some."""
        told, rejects, cut = Told(UTC), Rejects(), set[str]()
        told.add(await client.get(VERSION), VERSION, 0, rejects)
        for job in _listed(await client.get(JOBS), JOBS):
            told.add(job, JOBS, 0, rejects)
        for item in inside(Piece(0, "data", _data(await client.get(NODES), NODES)), NODES, rejects):
            told.add(item, NODES, 0, rejects)
        for name, path in LISTS.items():
            refused = Rejects()
            shown = path.partition("?")[0]
            for item in inside(Piece(0, "data", _data(await client.get(path), shown)), shown, refused):
                told.add(item, shown, 0, refused)
            if refused.counts and name in CUT:
                cut.add(CUT[name])
            if name != "creations":
                for reason, count in refused.counts.items():
                    rejects.add(f"{name}: {reason}", *refused.first[reason], count=count)
        wanted = [str(item["actor_id"]) for item in told.of("actor") if _asks_gpu(item)]
        await self._by_id(client, wanted[:MAX_ASKED_ACTORS], told, rejects)
        told.at_us = now_us()
        return told, cut, rejects

    async def _by_id(self, client: Client, ids: Sequence[str], told: Told, rejects: Rejects) -> None:
        for at in range(0, len(ids), IDS_A_QUESTION):
            path = actors_by_id(ids[at : at + IDS_A_QUESTION])
            shown = path.partition("?")[0]
            for item in inside(Piece(0, "data", _data(await client.get(path), shown)), shown, rejects):
                told.add(item, shown, 0, rejects)

    async def _begun(self, seen: Picture, sink: Sink) -> tuple[Book, list[Any]]:
        """The book of this session; a head that began anew holds nothing of what it held before."""
        news: list[Any] = []
        if self._book is None or self._session != seen.session:
            news = self._book.close() if self._book is not None else []
            book = Book()
            book.remember(await sink.open_claims(self.cluster, "ray"), seen.session)
            self._book, self._session = book, seen.session
        return self._book, news

    def _fresh(self, rejects: Rejects) -> Rejects:
        """What was refused for the first time, or more often than in the poll before: not the same again each time."""
        fresh = Rejects()
        for reason, count in rejects.counts.items():
            if count > self._refused.get(reason, 0):
                fresh.add(reason, *rejects.first[reason], count=count - self._refused.get(reason, 0))
        self._refused = dict(rejects.counts)
        return fresh


def _asks_gpu(item: Mapping[str, Any]) -> bool:
    resources = item.get("required_resources")
    return isinstance(resources, dict) and "GPU" in resources and not item.get("placement_group_id")


def _listed(answer: Any, path: str) -> list[Any]:
    if not isinstance(answer, list):
        raise SourceUnreachable(f"{path}: answers without a list; url in [[ray]] must be that of a Ray dashboard")
    return answer


def _data(answer: Any, path: str) -> Any:
    if not isinstance(answer, dict) or answer.get("result") is not True:
        said = answer.get("msg") if isinstance(answer, dict) else None
        raise SourceUnreachable(f"{path}: {said or 'no answer of the state API'}; see the head's dashboard.log")
    return answer.get("data")
