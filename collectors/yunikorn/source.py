"""Live source `yunikorn`: the REST API of YuniKorn's scheduler asked again and again (`[[yunikorn]]`)."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import Any
from urllib.parse import quote

from gpuwatch.collectors.shared.http_json import Access, Client, NotServed, access_of
from gpuwatch.collectors.shared.json_fields import Malformed, Object
from gpuwatch.collectors.shared.live_options import Options
from gpuwatch.collectors.shared.live_rounds import rounds
from gpuwatch.collectors.shared.live_write import write
from gpuwatch.collectors.shared.records import Columns, table_batches
from gpuwatch.collectors.yunikorn.changes import Book
from gpuwatch.collectors.yunikorn.files import IGNORED, name_of, take, what
from gpuwatch.core.errors import GpuwatchError, SourceUnreachable
from gpuwatch.core.model import Rejects
from gpuwatch.core.registry import LiveSource, Sink, live

MAX_CLUSTERS = 100
MAX_PARTITIONS = 100
MAX_LEAVES = 10_000
"""Leaf queues asked one by one of a YuniKorn that lists no applications of a partition."""
MAX_REFUSED = 10_000
HINTS = {404: "check url in [[yunikorn]]: it is the root of YuniKorn's web service, as http://yunikorn-service:9080"}
STATES = ("active", "completed", "rejected")


@live("yunikorn", "YuniKorn: partitions, queues and applications of its REST API")
def configure(tables: Sequence[Mapping[str, Any]], problems: list[str]) -> Sequence[LiveSource]:
    """One source a `[[yunikorn]]` table; addresses must differ, and clusters too, since a round says what is gone."""
    sources: dict[str, YunikornSource] = {}
    if len(tables) > MAX_CLUSTERS:
        problems.append(f"[[yunikorn]]: more than {MAX_CLUSTERS} tables")
    for number, table in enumerate(tables[:MAX_CLUSTERS], start=1):
        options = Options(table, f"[[yunikorn]] {number}", problems)
        cluster = options.text("cluster", "default")
        source = YunikornSource(cluster, options)
        options.finish()
        if not cluster or cluster in sources:
            options.wrong("cluster", "must be there and differ from the other [[yunikorn]] tables")
        sources[cluster] = source
    return list(sources.values())


class YunikornSource:
    """One YuniKorn. One object a cluster; not for two tasks at once."""

    kind = "yunikorn"

    def __init__(self, cluster: str, options: Options) -> None:
        """Reads its options; what is wrong is told there."""
        self.cluster = cluster
        self.interval_s = options.number("interval_s", 30, 1, 3600)
        self._claims = options.flag("claims", True)
        self._access = _access(options)
        self.name = f"yunikorn {self._access.url}"
        self._book: Book | None = None
        self._refused: set[tuple[str, str]] = set()

    async def run(self, sink: Sink, now_us: Callable[[], int]) -> None:
        """Polls for ever. Begins with what the store knows, also when it is started again."""
        self._book = None
        await rounds(lambda: self.poll(sink, now_us), self.interval_s, now_us)

    async def poll(self, sink: Sink, now_us: Callable[[], int]) -> bool:
        """One round: asks, writes the news, tells the sink how it went. False when YuniKorn did not answer it whole.

        A round that broke off says nothing of what it did not reach: it ends and deletes nothing.
        """
        try:
            if self._book is None:
                book = Book()
                book.remember(await sink.open_claims(self.cluster, "kubernetes"))
                for table in ("queue", "workload"):
                    book.remember_rows(table, await sink.open_rows(self.cluster, table))
                self._book = book
            at_us, rejects = now_us(), Rejects()
            async with Client(self._access) as client:
                items = await _everything(client)
            unsure = set[str | None]()
            rows = await asyncio.to_thread(self._rows, items, at_us, rejects, unsure)
            news = self._book.take(rows, at_us, unsure)
            tables: dict[str, list[Columns]] = {}
            for table, row in news:
                tables.setdefault(table, []).append(row)
            told = [batch for table, found in tables.items() for batch in table_batches(table, found, self.cluster)]
            await write(sink, self.name, told, self._news_of(rejects), now_us)
        except GpuwatchError as error:
            sink.failed(self.name, now_us(), str(error))
            return False
        sink.succeeded(self.name, now_us(), len(items))
        return True

    def _rows(
        self, items: Sequence[Object], at_us: int, rejects: Rejects, unsure: set[str | None]
    ) -> list[tuple[str, Columns]]:
        """Rows of all items; one that could not be read is there all the same: `unsure` names it as Book.take has it."""
        tables: dict[str, list[Columns]] = {}
        for item in items:
            try:
                said = take(item, tables, at_us)
            except Malformed as error:
                rejects.add(f"{what(item)}: {error}", "yunikorn", 0, name_of(item))
                name = item.get("applicationID", None if "queuename" in item else "")
                unsure.add(name if name is None or isinstance(name, str) else "")
                continue
            if said is None or said:
                rejects.add(f"{IGNORED}: {said}" if said else "not an answer of YuniKorn", "yunikorn", 0, name_of(item))
        kept = {table: rows for table, rows in tables.items() if table != "claim" or self._claims}
        return [(table, row) for table, rows in kept.items() for row in rows]

    def _news_of(self, rejects: Rejects) -> Rejects:
        """What was not refused before: the same application comes again with every round."""
        fresh = Rejects()
        for reason, (file, line, text) in rejects.first.items():
            if (reason, text) not in self._refused and len(self._refused) < MAX_REFUSED:
                self._refused.add((reason, text))
                fresh.add(reason, file, line, text, rejects.counts[reason])
        return fresh


async def _everything(client: Client) -> list[Object]:
    """Partitions, their queues and their applications. Raises SourceUnreachable."""
    partitions = await _items(client, "partitions")
    items: list[Object] = list(partitions)
    for partition in partitions[:MAX_PARTITIONS]:
        name = str(partition.get("name") or "default")
        queues = await _items(client, "partition", name, "queues")
        items += queues
        items += await _applications(client, name, queues)
    return items


async def _applications(client: Client, partition: str, queues: Sequence[Object]) -> list[Object]:
    """Applications of a partition by state; from a YuniKorn that has no such path, those of every leaf queue."""
    found: list[Object] = []
    try:
        for state in STATES:
            found += await _items(client, "partition", partition, "applications", state)
        return _newest(found)
    except NotServed:
        if found:  # the path is there, this state is not
            return _newest(found)
    for leaf in _leaves(queues):
        found += await _items(client, "partition", partition, "queue", leaf, "applications")
    return _newest(found)


def _newest(found: Sequence[Object]) -> list[Object]:
    """One object an application: an id that was used before counts as it is now."""
    known: dict[str, Object] = {}
    for item in found:
        key = str(item.get("applicationID"))
        old = known.get(key)
        if old is None or _submitted(item) > _submitted(old):
            known[key] = item
    return list(known.values())


def _submitted(item: Object) -> int:
    value = item.get("submissionTime")
    return value if isinstance(value, int) and not isinstance(value, bool) else 0


def _leaves(queues: Sequence[Object]) -> list[str]:
    waiting, leaves = list(queues), list[str]()
    while waiting and len(leaves) < MAX_LEAVES:
        queue = waiting.pop()
        children = queue.get("children")
        if isinstance(children, list) and children:
            waiting += [child for child in children if isinstance(child, dict)]
        elif isinstance(queue.get("queuename"), str):
            leaves.append(queue["queuename"])
    return leaves


async def _items(client: Client, *path: str) -> list[Object]:
    """The objects that a path answers: its list, or the one object. Raises NotServed, SourceUnreachable."""
    place = f"/ws/v1/{'/'.join(quote(part, safe='') for part in path)}"
    value = await client.get(place)
    items = value if isinstance(value, list) else [] if value is None else [value]
    if not all(isinstance(item, dict) for item in items):
        raise SourceUnreachable(f"{place}: neither an object nor a list of objects; is this YuniKorn?")
    return items


def _access(options: Options) -> Access:
    found = access_of(options, "YuniKorn", "[[yunikorn]]", "http://yunikorn-service.yunikorn:9080", HINTS, 20)
    return replace(found, url=found.url.removesuffix("/ws/v1"))
