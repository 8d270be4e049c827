"""Live source `yunikorn`: polls the REST API of YuniKorn's scheduler (`[[yunikorn]]`)."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import Any
from urllib.parse import quote

from gpuwatch.collectors.shared.changes import NewRejects
from gpuwatch.collectors.shared.http_json import Access, Client, NotServed, access_of
from gpuwatch.collectors.shared.json_fields import Malformed, Object
from gpuwatch.collectors.shared.live_options import Options
from gpuwatch.collectors.shared.live_rounds import rounds
from gpuwatch.collectors.shared.live_write import write
from gpuwatch.collectors.shared.records import Columns, Row, batches
from gpuwatch.collectors.yunikorn.changes import YunikornChanges
from gpuwatch.collectors.yunikorn.files import IGNORED, add_rows, kind_of, name_of
from gpuwatch.core.errors import GpuwatchError, SourceUnreachable
from gpuwatch.core.model import Rejects
from gpuwatch.core.registry import LiveSource, Sink, live

MAX_CLUSTERS = 100
MAX_PARTITIONS = 100
MAX_LEAVES = 10_000
"""The most leaf queues that are requested one by one from a YuniKorn that does not list applications by partition."""
HINTS = {404: "check url in [[yunikorn]]: the root of YuniKorn's web service, such as http://yunikorn-service:9080"}
STATES = ("active", "completed", "rejected")


@live("yunikorn", "YuniKorn: partitions, queues and applications of its REST API")
def configure(tables: Sequence[Mapping[str, Any]], problems: list[str]) -> Sequence[LiveSource]:
    """One source per `[[yunikorn]]` table; clusters must differ, because what a round does not list counts as gone."""
    sources: dict[str, YunikornSource] = {}
    if len(tables) > MAX_CLUSTERS:
        problems.append(f"[[yunikorn]]: more than {MAX_CLUSTERS} tables")
    for number, table in enumerate(tables[:MAX_CLUSTERS], start=1):
        options = Options(table, f"[[yunikorn]] {number}", problems)
        cluster = options.text("cluster", "default")
        source = YunikornSource(cluster, options)
        options.finish()
        if not cluster or cluster in sources:
            options.wrong("cluster", "is required and must differ from the other [[yunikorn]] tables")
        sources[cluster] = source
    return list(sources.values())


class YunikornSource:
    """One YuniKorn. One object per cluster; not safe for concurrent tasks."""

    kind = "yunikorn"

    def __init__(self, cluster: str, options: Options) -> None:
        """Reads the options; problems are added to them."""
        self.cluster = cluster
        self.interval_s = options.number("interval_s", 30, 1, 3600)
        self._claims = options.flag("claims", True)
        self._access = _access(options)
        self.name = f"yunikorn {self._access.url}"
        self._changes: YunikornChanges | None = None
        self._new_rejects = NewRejects()

    async def run(self, sink: Sink, now_us: Callable[[], int]) -> None:
        """Polls forever. Loads the state from the store each time it is started."""
        self._changes = None
        await rounds(lambda: self.poll(sink, now_us), self.interval_s, now_us)

    async def poll(self, sink: Sink, now_us: Callable[[], int]) -> bool:
        """One round: queries YuniKorn, writes changes, reports to the sink. False if it did not respond completely.

        An incomplete round ends and deletes nothing.
        """
        try:
            if self._changes is None:
                tracker = YunikornChanges()
                tracker.remember(await sink.open_claims(self.cluster, "kubernetes"))
                for table in ("queue", "workload"):
                    tracker.remember_rows(table, await sink.open_rows(self.cluster, table))
                self._changes = tracker
            at_us, rejects = now_us(), Rejects()
            async with Client(self._access) as client:
                items = await _fetch_all(client)
            unparsed = set[str | None]()
            rows = await asyncio.to_thread(self._rows, items, at_us, rejects, unparsed)
            changes = self._changes.changes(rows, at_us, unparsed)
            tables = list(batches((table, row | {"cluster": self.cluster}) for table, row in changes))
            await write(sink, self.name, tables, self._new_rejects.since_last(rejects), now_us)
        except GpuwatchError as error:
            sink.failed(self.name, now_us(), str(error))
            return False
        sink.succeeded(self.name, now_us(), len(items))
        return True

    def _rows(self, items: Sequence[Object], at_us: int, rejects: Rejects, unparsed: set[str | None]) -> list[Row]:
        """Rows of all items; those that could not be parsed are added to `unparsed`, see YunikornChanges.changes."""
        tables: dict[str, list[Columns]] = {}
        for item in items:
            try:
                ignored = add_rows(item, tables, at_us)
            except Malformed as error:
                rejects.add(f"{kind_of(item)}: {error}", "yunikorn", 0, name_of(item))
                name = item.get("applicationID", None if "queuename" in item else "")
                unparsed.add(name if name is None or isinstance(name, str) else "")
                continue
            if ignored is None or ignored:
                reason = f"{IGNORED}: {ignored}" if ignored else "not a response of YuniKorn"
                rejects.add(reason, "yunikorn", 0, name_of(item))
        kept = {table: rows for table, rows in tables.items() if table != "claim" or self._claims}
        return [(table, row) for table, rows in kept.items() for row in rows]


async def _fetch_all(client: Client) -> list[Object]:
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
    """Applications of a partition by state, or by leaf queue for a YuniKorn without that path."""
    found: list[Object] = []
    try:
        for state in STATES:
            found += await _items(client, "partition", partition, "applications", state)
        return _newest(found)
    except NotServed:
        if found:  # the path exists, but not for this state
            return _newest(found)
    for leaf in _leaves(queues):
        found += await _items(client, "partition", partition, "queue", leaf, "applications")
    return _newest(found)


def _newest(found: Sequence[Object]) -> list[Object]:
    """One object per application: of a reused id, the latest."""
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
    remaining, leaves = list(queues), list[str]()
    while remaining and len(leaves) < MAX_LEAVES:
        queue = remaining.pop()
        children = queue.get("children")
        if isinstance(children, list) and children:
            remaining += [child for child in children if isinstance(child, dict)]
        elif isinstance(queue.get("queuename"), str):
            leaves.append(queue["queuename"])
    return leaves


async def _items(client: Client, *path: str) -> list[Object]:
    """The objects in the response: those of a list, or a single one. Raises NotServed, SourceUnreachable."""
    url_path = f"/ws/v1/{'/'.join(quote(part, safe='') for part in path)}"
    value = await client.get(url_path)
    items = value if isinstance(value, list) else [] if value is None else [value]
    if not all(isinstance(item, dict) for item in items):
        raise SourceUnreachable(f"{url_path}: neither an object nor a list of objects; is this YuniKorn?")
    return items


def _access(options: Options) -> Access:
    found = access_of(options, "YuniKorn", "[[yunikorn]]", "http://yunikorn-service.yunikorn:9080", HINTS, 20)
    return replace(found, url=found.url.removesuffix("/ws/v1"))
