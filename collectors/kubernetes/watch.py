"""Follows one kind of object: lists it, watches it, and lists it again after a gap, with pauses after failures."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncGenerator, Callable
from contextlib import aclosing
from typing import Any

from gpuwatch.collectors.kubernetes.changes import ClusterChanges
from gpuwatch.collectors.kubernetes.client import Client, Garbled, Gone, Refused
from gpuwatch.collectors.kubernetes.feeds import Feed, collection_path, tracking_key
from gpuwatch.collectors.shared.json_fields import Malformed, Object, mapping, mappings, moment
from gpuwatch.collectors.shared.live_options import backoff_s
from gpuwatch.core.errors import SourceUnreachable

MAX_LIST_RESTARTS = 3
REPLAY_S = 10.0
"""A new watch first replays what happened since the requested version; after this many seconds, changes are current."""
SETTLED_S = 30.0
"""A watch that was open this long was healthy: what failed before it does not count."""
SHORT_S = 1.0
"""A watch that the server ends sooner is opened again after a pause."""


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
        self.refused = False
        """Whether the missing permission has been reported."""
        self.alive_us: int | None = None
        """When the server last answered: objects not deleted by then existed."""
        self._opened_s: float | None = None
        self._replaying = True
        """Whether the changes that come may have happened before the watch was established."""
        self._changes = changes
        self._version = ""

    def open_s(self) -> float:
        """For how many seconds the last watch was established."""
        return 0.0 if self._opened_s is None else asyncio.get_running_loop().time() - self._opened_s

    async def rounds(
        self, client: Client, page_size: int, watch_s: int, now_us: Callable[[], int]
    ) -> AsyncGenerator[int, None]:
        """Lists if needed, then watches until the server ends it; yields the number of objects in each answer.

        Raises SourceUnreachable (Refused, Gone). The next call continues where this one stopped.
        """
        self._opened_s = None
        try:
            if not self.listed:
                async for read in self._list(client, page_size, now_us):
                    yield read
                self.listed = True
                self.tried.set()
            async with aclosing(client.lines(self.path, self._version, watch_s)) as answer:
                async for lines in answer:
                    if self._opened_s is None:
                        self._opened_s = asyncio.get_running_loop().time()
                        self._replaying = True
                    at_us = now_us()
                    for line in lines:
                        self._replaying = self._replaying and self.open_s() < REPLAY_S
                        self._line(line, at_us)
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
            raise Garbled(f"{self.path}: a line of the watch is not an event; a proxy in between?") from error
        if kind == "ERROR":
            raise self._error(item)
        if kind in ("ADDED", "MODIFIED"):
            self._take(item, at_us)
        elif kind == "DELETED":
            self._deleted(item, at_us)
        self._heard(kind, metadata, at_us)
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
            live = self.alive_us is None or not self._replaying
            self.feed.deleted(item, at_us if live else min(self.alive_us or 0, at_us), at_us)
        except Malformed as error:
            self._changes.outbox.refuse(f"{self.feed.kind}: {error}", item)

    def _heard(self, kind: str, metadata: Object, at_us: int) -> None:
        """Notes up to when the watch has brought every change: changes come in order, and a replayed one dates itself.

        A bookmark comes after all that happened before it.
        """
        self._replaying = self._replaying and kind != "BOOKMARK"
        if not self._replaying:
            self.alive_us = at_us
        elif (changed_us := _last_change(metadata)) is not None:
            self.alive_us = max(self.alive_us or 0, min(changed_us, at_us))

    def _error(self, status: Any) -> Gone | Refused:
        fields = status if isinstance(status, dict) else {}
        text = f"{self.path}: {fields.get('code')} {str(fields.get('message') or '')[:300]}"
        return Gone(text) if fields.get("code") == 410 or fields.get("reason") == "Expired" else Refused(text)


class Pauses:
    """The failures of one watch in a row."""

    def __init__(self) -> None:
        self.failures = 0
        self.relists = 0
        """Expired versions in a row. The first is normal after a gap: the server has compacted its log."""

    def after_end(self, open_s: float, first_s: float, most_s: float) -> float:
        """The pause after the server ended a watch that was open for `open_s` seconds."""
        self.failures = 0
        if open_s >= SHORT_S:
            self.relists = 0
            return 0.0
        return backoff_s(1, first_s, most_s)

    def after(self, error: SourceUnreachable, open_s: float, first_s: float, most_s: float) -> float:
        """The pause after a failure of a watch that was open for `open_s` seconds.

        The first expired version is listed again at once, however long the outage before it was.
        """
        if open_s >= SETTLED_S:
            self.failures = self.relists = 0
        if isinstance(error, Gone):
            self.failures = 0
            self.relists += 1
            return backoff_s(self.relists - 1, first_s, most_s) if self.relists > 1 else 0.0
        self.failures += 1
        wait_s = backoff_s(self.failures, first_s, most_s)
        asked_s = error.retry_after_s if isinstance(error, Refused) else None
        return max(wait_s, asked_s or 0.0)


def _last_change(metadata: Object) -> int | None:
    """When an object was last written, by the clock of the API server; None if it has no valid time."""
    try:
        times = [moment(entry, "time") for entry in mappings(metadata, "managedFields")]
        return max((t for t in (*times, moment(metadata, "creationTimestamp")) if t is not None), default=None)
    except Malformed:
        return None
