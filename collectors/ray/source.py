"""Live source `ray`: polls the head of a Ray cluster for the holders of GPUs."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping, Sequence
from typing import Any
from zoneinfo import ZoneInfo

from gpuwatch.collectors.ray.changes import RayChanges
from gpuwatch.collectors.ray.files import items_of, with_cluster
from gpuwatch.collectors.ray.gpu_holders import actor_of
from gpuwatch.collectors.ray.paths import IDS_PER_REQUEST, JOBS, LIMIT, NODES, VERSION, actors_by_id, listing
from gpuwatch.collectors.ray.rows import HeadState, head_state, rows
from gpuwatch.collectors.ray.state import Responses
from gpuwatch.collectors.shared.changes import NewRejects
from gpuwatch.collectors.shared.http_json import NOWHERE, Access, Client, access_of
from gpuwatch.collectors.shared.json_stream import Element
from gpuwatch.collectors.shared.live_options import Options
from gpuwatch.collectors.shared.live_rounds import rounds
from gpuwatch.collectors.shared.live_write import write
from gpuwatch.collectors.shared.records import Row, batches
from gpuwatch.core.errors import GpuwatchError, SourceUnreachable
from gpuwatch.core.model import Rejects
from gpuwatch.core.registry import LiveSource, Sink, live

MAX_HEADS = 1000
MAX_ACTORS_BY_ID = LIMIT
"""The most actors that are requested by id in one poll: as many as a list can hold."""
UTC = ZoneInfo("UTC")

LISTS = {
    "nodes": listing("nodes"),
    "groups": listing("placement_groups", ("state", "!=", "REMOVED")),
    "actors": listing("actors", ("state", "!=", "DEAD")),
    # By state, so that running tasks are not lost behind thousands that have ended.
    "tasks": listing("tasks", ("type", "=", "NORMAL_TASK"), ("state", "=", "RUNNING")),
    "waiting": listing("tasks", ("type", "=", "NORMAL_TASK"), ("state", "=", "PENDING_NODE_ASSIGNMENT")),
    "finished": listing("tasks", ("type", "=", "NORMAL_TASK"), ("state", "=", "FINISHED")),
    "failed": listing("tasks", ("type", "=", "NORMAL_TASK"), ("state", "=", "FAILED")),
    "creations": listing("tasks", ("type", "=", "ACTOR_CREATION_TASK")),
}
UNIT_KINDS = {"groups": "group", "actors": "actor", "tasks": "task"}
"""The lists of current GPU holders, and the kind of unit in each."""


@live("ray", "Ray: nodes, jobs, placement groups, actors and tasks, polled from the dashboard of a head")
def configure(tables: Sequence[Mapping[str, Any]], problems: list[str]) -> Sequence[LiveSource]:
    """One source per `[[ray]]` table; a cluster may have several heads."""
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
        self._changes: RayChanges | None = None
        self._session: str | None = None
        self._new_rejects = NewRejects()

    async def run(self, sink: Sink, now_us: Callable[[], int]) -> None:
        """Polls forever. Loads the state from the store each time it is started."""
        self._changes, self._session = None, None
        async with Client(self.access) as client:
            await rounds(lambda: self.poll(client, sink, now_us), self.interval_s, now_us)

    async def poll(self, client: Client, sink: Sink, now_us: Callable[[], int]) -> bool:
        """One round: queries the head, writes changes, reports to the sink. False if the head did not respond."""
        try:
            responses, truncated, rejects = await self._fetch(client, now_us)
            head = await asyncio.to_thread(head_state, responses, self.name, rejects)
            tracker, changes = await self._tracker_of(head, sink)
            if missing := sorted(tracker.units() - {unit.uid for unit in head.units})[:MAX_ACTORS_BY_ID]:
                # For actors that are no longer listed, the dashboard still has the end.
                await self._by_id(
                    client, sorted({actor for unit in missing if (actor := actor_of(unit))}), responses, rejects
                )
                head = await asyncio.to_thread(head_state, responses, self.name, Rejects())
            at_us = head.at_us or now_us()
            changes += tracker.changes(rows(head, self.name, rejects), head, truncated, at_us, rejects)
            tables = list(batches(with_cluster(changes, self.cluster)))
            await write(sink, self.name, tables, self._new_rejects.since_last(rejects), now_us)
        except GpuwatchError as error:
            sink.failed(self.name, now_us(), str(error))
            return False
        sink.succeeded(self.name, now_us(), sum(len(listed) for listed in responses.items.values()))
        return True

    async def _fetch(self, client: Client, now_us: Callable[[], int]) -> tuple[Responses, set[str], Rejects]:
        """The current state of a head, and the kinds of unit whose list was truncated."""
        responses, rejects, truncated = Responses(UTC), Rejects(), set[str]()
        responses.add(await client.get(VERSION), VERSION, 0, rejects)
        for job in _list(await client.get(JOBS), JOBS):
            responses.add(job, JOBS, 0, rejects)
        for item in items_of(Element(0, "data", _data(await client.get(NODES), NODES)), NODES, rejects):
            responses.add(item, NODES, 0, rejects)
        for name, path in LISTS.items():
            found = Rejects()
            shown = path.partition("?")[0]
            for item in items_of(Element(0, "data", _data(await client.get(path), shown)), shown, found):
                responses.add(item, shown, 0, found)
            if found.counts and name in UNIT_KINDS:
                truncated.add(UNIT_KINDS[name])
            if name != "creations":
                for reason, count in found.counts.items():
                    rejects.add(f"{name}: {reason}", *found.first[reason], count=count)
        ids = [str(item["actor_id"]) for item in responses.of("actor") if _requests_gpu(item)]
        await self._by_id(client, ids[:MAX_ACTORS_BY_ID], responses, rejects)
        responses.at_us = now_us()
        return responses, truncated, rejects

    async def _by_id(self, client: Client, ids: Sequence[str], responses: Responses, rejects: Rejects) -> None:
        for at in range(0, len(ids), IDS_PER_REQUEST):
            path = actors_by_id(ids[at : at + IDS_PER_REQUEST])
            shown = path.partition("?")[0]
            for item in items_of(Element(0, "data", _data(await client.get(path), shown)), shown, rejects):
                responses.add(item, shown, 0, rejects)

    async def _tracker_of(self, head: HeadState, sink: Sink) -> tuple[RayChanges, list[Row]]:
        """The change tracker of this session; after a restart of the head, what the old session held has ended."""
        changes: list[Row] = []
        if self._changes is None or self._session != head.session:
            changes = self._changes.close() if self._changes is not None else []
            tracker = RayChanges()
            tracker.remember(await sink.open_claims(self.cluster, "ray"), head.session)
            self._changes, self._session = tracker, head.session
        return self._changes, changes


def _requests_gpu(item: Mapping[str, Any]) -> bool:
    resources = item.get("required_resources")
    return isinstance(resources, dict) and "GPU" in resources and not item.get("placement_group_id")


def _list(response: Any, path: str) -> list[Any]:
    if not isinstance(response, list):
        raise SourceUnreachable(f"{path}: the response has no list; url in [[ray]] must be that of a Ray dashboard")
    return response


def _data(response: Any, path: str) -> Any:
    if not isinstance(response, dict) or response.get("result") is not True:
        message = response.get("msg") if isinstance(response, dict) else None
        raise SourceUnreachable(f"{path}: {message or 'not a response of the state API'}; see the head's dashboard.log")
    return response.get("data")
