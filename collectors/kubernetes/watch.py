"""Follows one kind of object: lists it, watches it, and lists it again after a gap."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncGenerator, Callable
from contextlib import aclosing
from typing import Any

from gpuwatch.collectors.kubernetes.changes import ClusterChanges
from gpuwatch.collectors.kubernetes.client import Client, Gone, Refused
from gpuwatch.collectors.kubernetes.feeds import Feed, collection_path, tracking_key
from gpuwatch.collectors.shared.json_fields import Malformed, Object, mapping

MAX_LIST_RESTARTS = 3


class Watch:
    """Follows one kind of object, in one namespace or in all (None)."""

    def __init__(
        self,
        changes: ClusterChanges,
        feed: Feed,
        version: str,
        namespace: str | None,
        after: tuple[Watch, ...] = (),
        optional: bool = False,
    ) -> None:
        self.optional = optional
        """Whether the other watches go on if the server lacks this kind or refuses it."""
        self.feed = feed
        self.namespace = namespace
        self.path = collection_path(feed.group, version, feed.plural, namespace)
        self.after = after
        """The watches whose first list this one waits for."""
        self.tried = asyncio.Event()
        self.listed = False
        self.alive_us: int | None = None
        """When the server last answered: objects not deleted by then existed."""
        self._changes = changes
        self._version = ""

    async def rounds(
        self, client: Client, page_size: int, watch_s: int, now_us: Callable[[], int]
    ) -> AsyncGenerator[int, None]:
        """Lists if needed, then watches until the server ends it; yields the number of objects in each answer.

        Raises SourceUnreachable (Refused, Gone). The next call continues where this one stopped.
        """
        try:
            if not self.listed:
                async for read in self._list(client, page_size, now_us):
                    yield read
                self.listed = True
                self.tried.set()
            async with aclosing(client.lines(self.path, self._version, watch_s)) as answer:
                async for lines in answer:
                    at_us = now_us()
                    for line in lines:
                        self._line(line, at_us)
                    self.alive_us = at_us if lines else self.alive_us
                    yield len(lines)
            self.alive_us = now_us()
            yield 0
        except Gone:
            self.listed = False
            raise

    async def _list(self, client: Client, page_size: int, now_us: Callable[[], int]) -> AsyncGenerator[int, None]:
        """Takes the complete list. If a page expires, the list restarts, since the missing objects must be known."""
        for attempt in range(MAX_LIST_RESTARTS + 1):
            found, version, at_us = set[str](), "", now_us()  # the list is newer than this
            try:
                async for items, version in client.pages(self.path, page_size):
                    found |= {name for item in items if (name := self._take(item, now_us()))}
                    yield len(items)
                break
            except Gone:
                if attempt == MAX_LIST_RESTARTS:
                    raise
        self.feed.listed(found, self.alive_us, at_us, self.namespace)
        self._version, self.alive_us = version, at_us
        yield 0

    def _line(self, line: bytes, at_us: int) -> None:
        """Takes one line of a watch, whose version is where the next watch resumes. Raises Gone, Refused."""
        try:
            event = json.loads(line)
            kind, item = event["type"], event["object"]
            metadata = mapping(item, "metadata")
        except (ValueError, RecursionError, TypeError, KeyError, AttributeError) as error:
            # The lost change is unknown, so the kind has to be listed again.
            example = line[:200].decode(errors="replace")
            self._changes.outbox.refuse_input("a line of a watch is not an event", self.path, example)
            raise Gone(f"{self.path}: a line of the watch is not an event; a proxy in between?") from error
        if kind == "ERROR":
            raise self._error(item)
        if kind in ("ADDED", "MODIFIED"):
            self._take(item, at_us)
        elif kind == "DELETED":
            self._deleted(item, at_us)
        version = metadata.get("resourceVersion")
        self._version = version if isinstance(version, str) and version else self._version

    def _take(self, item: Object, at_us: int) -> str | None:
        """Passes an object to the tracker; returns its key, None if it is not tracked."""
        try:
            return self.feed.take(item, at_us)
        except Malformed as error:
            self._changes.outbox.refuse(f"{self.feed.kind}: {error}", item)
            return tracking_key(item, self.feed.kind)

    def _deleted(self, item: Object, at_us: int) -> None:
        try:
            self.feed.deleted(item, at_us if self.alive_us is None else self.alive_us, at_us)
        except Malformed as error:
            self._changes.outbox.refuse(f"{self.feed.kind}: {error}", item)

    def _error(self, status: Any) -> Gone | Refused:
        fields = status if isinstance(status, dict) else {}
        text = f"{self.path}: {fields.get('code')} {str(fields.get('message') or '')[:300]}"
        return Gone(text) if fields.get("code") == 410 or fields.get("reason") == "Expired" else Refused(text)
