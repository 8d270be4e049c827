"""A small Kubernetes API server over real HTTP: it keeps objects, their versions and a log of changes."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Awaitable, Callable
from typing import Any

from aiohttp import web

from gpuwatch.collectors.kubernetes.source import configure
from tests.real.test_kubernetes import Clock, FakeSink
from tests.worlds.patience import PATIENCE_S

Json = dict[str, Any]
PODS, NODES, EVENTS = "/api/v1/pods", "/api/v1/nodes", "/api/v1/events"


class Server:
    """Collections by path. Each change has a version; a watch gets those after its own, or 410 if they are gone."""

    def __init__(self, *collections: str) -> None:
        self.collections = set(collections)
        self.forbidden: set[str] = set()
        self.unavailable: set[str] = set()
        self.asked: list[tuple[str, str, dict[str, str]]] = []
        self.closing = asyncio.Event()
        self._objects: dict[str, dict[str, Json]] = {}
        self._log: list[tuple[int, str, Json]] = []
        self._version = 0
        self._oldest = 0
        self._changed = asyncio.Event()
        self._cut = asyncio.Event()

    def put(self, path: str, item: Json) -> None:
        """Creates or replaces an object."""
        self._version += 1
        metadata = item["metadata"] | {"resourceVersion": str(self._version)}
        known = self._objects.setdefault(path, {})
        word = "MODIFIED" if metadata["uid"] in known else "ADDED"
        known[metadata["uid"]] = item | {"metadata": metadata}
        self._say(path, {"type": word, "object": known[metadata["uid"]]})

    def delete(self, path: str, uid: str) -> None:
        """Deletes an object."""
        self._version += 1
        gone = self._objects[path].pop(uid)
        record = gone | {"metadata": gone["metadata"] | {"resourceVersion": str(self._version)}}
        self._say(path, {"type": "DELETED", "object": record})

    def bookmark(self, path: str) -> int:
        """Tells watches of a path how far they are; returns the version."""
        self._version += 1
        self._say(path, {"type": "BOOKMARK", "object": {"metadata": {"resourceVersion": str(self._version)}}})
        return self._version

    def forget(self, version: int | None = None) -> None:
        """Compacts the log: who asks for anything before a version (None: before now) has to list."""
        self._oldest = self._version if version is None else version
        self._log = [entry for entry in self._log if entry[0] > self._oldest]

    def disconnect(self) -> None:
        """Breaks every open watch."""
        self._cut.set()
        self._cut = asyncio.Event()

    def requests(self, verb: str, path: str) -> list[dict[str, str]]:
        """Queries of the lists or watches of a path so far."""
        return [query for v, p, query in self.asked if (v, p) == (verb, path)]

    async def handle(self, request: web.Request) -> web.StreamResponse:
        path, query = request.path, dict(request.query)
        verb = "watch" if query.get("watch") else "list"
        self.asked.append((verb, path, query))
        if path in self.forbidden:
            return web.json_response({"kind": "Status", "code": 403, "message": "is forbidden"}, status=403)
        if path in self.unavailable:
            return web.json_response({"kind": "Status", "code": 503, "message": "unavailable"}, status=503)
        if path == "/apis" or path.count("/") < 4 and not path.startswith("/api/v1/"):
            return self._discovery(path)
        if path not in self.collections:
            return web.json_response({"kind": "Status", "code": 404, "message": "not found"}, status=404)
        return await self._watch(request, path, query) if verb == "watch" else self._list(path, query)

    def _discovery(self, path: str) -> web.Response:
        parts = [collection.split("/") for collection in self.collections]
        if path == "/apis":
            versions: dict[str, set[str]] = {}
            for part in parts:
                if part[1] == "apis":
                    versions.setdefault(part[2], set()).add(part[3])
            return web.json_response(
                {
                    "groups": [
                        {"name": g, "versions": [{"version": v} for v in sorted(vs)]} for g, vs in versions.items()
                    ]
                }
            )
        names = [c.rpartition("/")[2] for c in self.collections if c.rpartition("/")[0] == path]
        return web.json_response({"resources": [{"name": n, "verbs": ["get", "list", "watch"]} for n in names]})

    def _list(self, path: str, query: dict[str, str]) -> web.Response:
        every = list(self._objects.get(path, {}).values())
        start, limit = int(query.get("continue", 0)), int(query["limit"])
        metadata = {"resourceVersion": str(self._version)}
        if start + limit < len(every):
            metadata["continue"] = str(start + limit)
        return web.json_response({"metadata": metadata, "items": every[start : start + limit]})

    async def _watch(self, request: web.Request, path: str, query: dict[str, str]) -> web.StreamResponse:
        response = web.StreamResponse()
        await response.prepare(request)
        at, cut = int(query["resourceVersion"]), self._cut
        if at < self._oldest:
            status = {"kind": "Status", "code": 410, "reason": "Expired", "message": "too old resource version"}
            await response.write(json.dumps({"type": "ERROR", "object": status}).encode() + b"\n")
            return response
        while not (cut.is_set() or self.closing.is_set()):
            changed = self._changed
            for version, where, item in [entry for entry in self._log if entry[0] > at and entry[1] == path]:
                await response.write(json.dumps(item).encode() + b"\n")
                at = version
            ends = [asyncio.ensure_future(event.wait()) for event in (changed, cut, self.closing)]
            await asyncio.wait(ends, return_when=asyncio.FIRST_COMPLETED)
            for end in ends:
                end.cancel()
        if cut.is_set() and request.transport is not None:
            request.transport.abort()
        return response

    def _say(self, path: str, event: Json) -> None:
        self._log.append((self._version, path, event))
        changed, self._changed = self._changed, asyncio.Event()
        changed.set()


Scenario = Callable[[Server, FakeSink, Clock], Awaitable[None]]


def run(
    server: Callable[[], Server], scenario: Scenario, sink: Callable[[], FakeSink] = FakeSink, **options: Any
) -> FakeSink:
    """Plays a scenario against a source that reads the server; ends with it."""

    async def play() -> FakeSink:
        api, store, clock = server(), sink(), Clock()
        app = web.Application()
        app.router.add_get("/{path:.*}", api.handle)
        runner = web.AppRunner(app, shutdown_timeout=0.1)
        await runner.setup()
        await web.TCPSite(runner, "127.0.0.1", 0).start()
        problems: list[str] = []
        table = {"cluster": "c1", "server": f"http://127.0.0.1:{runner.addresses[0][1]}", **options}
        source = configure([table], problems)[0]
        assert [] == problems
        reader = asyncio.ensure_future(source.run(store, clock))
        player = asyncio.ensure_future(scenario(api, store, clock))
        try:
            done, _ = await asyncio.wait({player, reader}, return_when=asyncio.FIRST_COMPLETED, timeout=PATIENCE_S)
            assert done, f"nothing came of it: {store.errors} {store.rows} {api.asked[-20:]}"
            for task in done:
                task.result()
        finally:
            for task in (player, reader):
                task.cancel()
            await asyncio.gather(player, reader, return_exceptions=True)
            api.closing.set()
            await runner.cleanup()
        return store

    return asyncio.run(play())
