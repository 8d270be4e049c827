"""One kind of object followed from a list through its changes: what is lost on the way is listed again."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncGenerator, Callable
from contextlib import aclosing
from typing import Any

from gpuwatch.collectors.kubernetes.changes import Book
from gpuwatch.collectors.kubernetes.client import Client, Gone, Refused
from gpuwatch.collectors.kubernetes.feeds import Feed, known_by, path_of
from gpuwatch.collectors.shared.json_fields import Malformed, Object, mapping

MAX_LIST_RESTARTS = 3


class Watch:
    """Follows one kind of object, in one namespace or in all (None)."""

    def __init__(
        self,
        book: Book,
        feed: Feed,
        version: str,
        namespace: str | None,
        after: tuple[Watch, ...] = (),
        optional: bool = False,
    ) -> None:
        self.optional = optional
        """Whether a server may lack it, or refuse it, and the others go on as they are."""
        self.feed = feed
        self.namespace = namespace
        self.path = path_of(feed.group, version, feed.plural, namespace)
        self.after = after
        """The watches whose first list this one waits for."""
        self.tried = asyncio.Event()
        self.listed = False
        self.alive_us: int | None = None
        """When the server was last heard: what had not been deleted by then was there."""
        self._book = book
        self._version = ""

    async def rounds(
        self, client: Client, page_size: int, watch_s: int, now_us: Callable[[], int]
    ) -> AsyncGenerator[int, None]:
        """Lists where that is needed, then watches until the server ends it; yields objects read after each answer.

        Raises SourceUnreachable (Refused, Gone). The next call goes on where this one broke off.
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
        """Takes the whole list. A list whose next page expired is begun anew: half a list says nothing of the rest."""
        for attempt in range(MAX_LIST_RESTARTS + 1):
            found, version, at_us = set[str](), "", now_us()  # the list is of a moment after this one
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
        """Takes one line of a watch; its version is where to go on from. Raises Gone, Refused."""
        try:
            event = json.loads(line)
            kind, item = event["type"], event["object"]
            metadata = mapping(item, "metadata")
        except (ValueError, RecursionError, TypeError, KeyError, AttributeError) as error:
            # What the line would have said is unknown: only a list can tell.
            self._book.rejects.add(
                "a line of a watch is not an event", self.path, 0, line[:200].decode(errors="replace")
            )
            raise Gone(f"{self.path}: a line of the watch is not an event; a proxy in between?") from error
        if kind == "ERROR":
            raise self._error(item)
        if kind in ("ADDED", "MODIFIED"):
            self._take(item, at_us)
        elif kind == "DELETED":
            self._deleted(item, at_us)
        said = metadata.get("resourceVersion")
        self._version = said if isinstance(said, str) and said else self._version

    def _take(self, item: Object, at_us: int) -> str | None:
        """Gives an object to the book; returns what the book knows it by, None where it leaves nothing there."""
        try:
            return self.feed.take(item, at_us)
        except Malformed as error:
            self._book.refuse(error, item, self.feed.kind)
            return known_by(item, self.feed.kind)

    def _deleted(self, item: Object, at_us: int) -> None:
        try:
            self.feed.deleted(item, at_us if self.alive_us is None else self.alive_us, at_us)
        except Malformed as error:
            self._book.refuse(error, item, self.feed.kind)

    def _error(self, status: Any) -> Gone | Refused:
        said = status if isinstance(status, dict) else {}
        text = f"{self.path}: {said.get('code')} {str(said.get('message') or '')[:300]}"
        return Gone(text) if said.get("code") == 410 or said.get("reason") == "Expired" else Refused(text)
