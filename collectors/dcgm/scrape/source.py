"""Live source `dcgm`: scrapes dcgm-exporter endpoints, each on its own schedule."""

from __future__ import annotations

import asyncio
import io
import random
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from gpuwatch.collectors.dcgm.exposition import Reader, timed
from gpuwatch.collectors.dcgm.exposition_repeat import Repeats
from gpuwatch.collectors.dcgm.link_metrics import Links
from gpuwatch.collectors.dcgm.scrape.config import Group, Target, read_groups
from gpuwatch.collectors.dcgm.scrape.discovery import MAX_FOUND, Discovery, Finder, TargetOwners
from gpuwatch.collectors.dcgm.scrape.discovery_dns import finder_of
from gpuwatch.collectors.dcgm.scrape.discovery_files import Files
from gpuwatch.collectors.dcgm.scrape.discovery_kubernetes import Endpoints
from gpuwatch.collectors.dcgm.scrape.http import Client, fetch
from gpuwatch.collectors.shared.clock import ClockCheck
from gpuwatch.collectors.shared.series import (
    Samples,
    SeriesNumbers,
    context_records,
    in_units,
    joined,
    of_devices,
    points,
)
from gpuwatch.core.clock import SECOND_US
from gpuwatch.core.errors import SourceUnreachable, StoreError, UnreadableInput
from gpuwatch.core.model import Points, Records, Rejects, hash64
from gpuwatch.core.registry import LiveSource, Sink, live

if TYPE_CHECKING:
    import aiohttp

KIND = "dcgm"
MAX_PAUSE_US = 60 * SECOND_US
"""Maximum pause of a failing target in addition to its interval."""
ALIGN_US = SECOND_US // 10
"""A scrape that starts this close to its scheduled time gets that time, so that the spacing is exact."""
INLINE_BYTES = 256 * 1024
"""A larger page is parsed in a thread, so that the event loop stays free."""
MAX_STORING = 4
"""Scrapes of one target that may wait to be stored."""
SERIES_FACTOR, SERIES_LEAST = 2, 1_000
"""The series of a target are forgotten above this multiple of the series of a page, plus the minimum."""


@live(KIND, "dcgm-exporter endpoints, scraped over HTTP")
def configure(tables: Sequence[Mapping[str, Any]], problems: list[str]) -> Sequence[LiveSource]:
    """One source per target of the `[[dcgm]]` tables, and one per table with discovery; all share a session."""
    groups = read_groups(tables, problems)
    targets = [target for group in groups for target in group.targets]
    finders = [(group, _finders(group, problems)) for group in groups]
    finds = any(found for _, found in finders)
    client = Client(len(targets) + (MAX_FOUND if finds else 0))
    owners = TargetOwners([target.shown for target in targets])

    def source(target: Target) -> DcgmSource:
        return DcgmSource(target, client)

    listed: list[LiveSource] = [source(target) for target in targets]
    return listed + [
        Discovery(f"{KIND} discovery {group.number}", group.template, found, group.refresh_s, owners, source)
        for group, found in finders
        if found
    ]


def _finders(group: Group, problems: list[str]) -> list[Finder]:
    """The finders of a table, those with the most labels first; every wrong value is added to `problems`."""
    where = f"[[dcgm]] table {group.number}:"
    found: list[Finder] = [Endpoints(table, f"{where} kubernetes", problems) for table in group.kubernetes]
    found += [Files(pattern) for pattern in group.file_sd]
    for name in group.dns:
        try:
            found.append(finder_of(name))
        except ValueError as error:
            problems.append(f"{where} dns: {error}")
    return found


class DcgmSource:
    """One endpoint, scraped forever."""

    kind = KIND

    def __init__(self, target: Target, client: Client) -> None:
        self.name = f"{KIND} {target.shown}"
        self.cluster = target.cluster
        self.interval_s = target.interval_s
        self._target = target
        self._client = client
        self._pages = Pages(target, self.name)
        self._interval_us = round(target.interval_s * SECOND_US)
        seed = hash64(target.url)
        self._offset_us = seed % self._interval_us
        self._random = random.Random(seed)

    async def run(self, sink: Sink, now_us: Callable[[], int]) -> None:
        """Scrapes on schedule, less often while the target fails; a scrape is stored as a whole or dropped.

        The next scrape does not wait until the last one is stored.
        """
        failures = 0
        scheduled_us = 0
        clock = ClockCheck(lambda offset_us, at_us: sink.clock(self.cluster, self.name, offset_us, at_us))
        storing: set[asyncio.Task[None]] = set()
        try:
            async with self._client.session() as session:
                while True:
                    scheduled_us = self.next_scrape(now_us(), scheduled_us, self.pause(failures))
                    await asyncio.sleep((scheduled_us - now_us()) / SECOND_US)
                    start_us = now_us()
                    at_us = scheduled_us if abs(start_us - scheduled_us) <= ALIGN_US else start_us
                    try:
                        page = await self._page(session, at_us, clock, now_us)
                    except (SourceUnreachable, UnreadableInput) as error:
                        failures += 1
                        sink.failed(self.name, at_us, str(error))
                    except Exception as error:  # noqa: BLE001 - a failed scrape must not stop the loop
                        failures += 1
                        sink.failed(self.name, at_us, f"{self._target.shown} failed: {type(error).__name__}: {error}")
                    else:
                        failures = 0
                        storing.add(task := asyncio.create_task(self._store(page, at_us, sink)))
                        task.add_done_callback(storing.discard)
                    if len(storing) >= MAX_STORING:
                        await asyncio.wait(storing, return_when=asyncio.FIRST_COMPLETED)
        finally:
            for task in storing:
                task.cancel()

    async def _page(
        self, session: aiohttp.ClientSession, at_us: int, clock: ClockCheck, now_us: Callable[[], int]
    ) -> Page:
        requested_us = now_us()
        dated = (lambda date: clock.check(date, requested_us, now_us())) if clock.due(requested_us) else None
        body = await fetch(session, self._target, dated)
        if len(body) > INLINE_BYTES:
            return await asyncio.to_thread(self._pages.page, body, at_us)
        return self._pages.page(body, at_us)

    async def _store(self, page: Page, at_us: int, sink: Sink) -> None:
        """Stores a page and reports the result."""
        refused = page.rejects.total
        try:
            await sink.commit(self.name, page.batches, page.rejects)
        except StoreError as error:
            self._pages.lost()
            sink.failed(self.name, at_us, f"{self._target.shown} was read, but the scrape is lost: {error}")
            return
        except Exception as error:  # noqa: BLE001 - a failed scrape must not stop the loop
            self._pages.lost()
            sink.failed(self.name, at_us, f"{self._target.shown} failed: {type(error).__name__}: {error}")
            return
        lost = page.rejects.total - refused
        if not lost:  # otherwise a context may have been refused, and all are sent again
            self._pages.committed(page.contexts)
        sink.succeeded(self.name, at_us, page.samples - lost)

    def next_scrape(self, now_us: int, last_us: int, pause_us: int = 0) -> int:
        """The next scheduled time after now, the last one and a pause. A last one far ahead means the clock was set back."""
        after_us = now_us + pause_us
        if last_us < now_us + self._interval_us:
            after_us = max(after_us, last_us)
        return (
            (after_us - self._offset_us) // self._interval_us * self._interval_us + self._interval_us + self._offset_us
        )

    def pause(self, failures: int) -> int:
        """The pause in microseconds after so many failures in a row; a single failure causes none."""
        if failures < 2:
            return 0
        longest = min(self._interval_us << min(failures - 1, 30), MAX_PAUSE_US)
        return round(self._random.uniform(0.5, 1) * longest)


@dataclass(frozen=True)
class Page:
    """The content of a page."""

    batches: list[Records | Points]
    samples: int
    contexts: int
    """Contexts so far, including this page: the argument of committed()."""
    rejects: Rejects


class Pages:
    """Converts pages of one target to batches; series are cached by their text from page to page."""

    def __init__(self, target: Target, name: str) -> None:
        self._labels = target.labels
        self._cluster = target.cluster
        self._name = name
        self._address = target.shown
        self._numbers = SeriesNumbers(target.cluster)
        self._reader = Reader(self._number_of, name, Rejects())
        self._repeats = Repeats()
        self._count = 0  # samples of the last page
        self._links = Links()
        self._done = 0  # contexts that are stored, or forgotten

    def page(self, body: bytes, at_us: int) -> Page:
        """The content of a page; lines without timestamp get `at_us`.

        Contexts repeat until committed() is called. Raises UnreadableInput without any DCGM sample.
        """
        if len(self._reader) > SERIES_FACTOR * self._count + SERIES_LEAST:
            self._forget()
        if body[:256].lstrip()[:1] == b"<":
            raise UnreadableInput(f"{self._address} answered with an HTML page, not with metrics; check port and path")
        rejects = Rejects()
        self._reader.start_page(rejects)
        samples = self._samples(body, rejects)
        self._count = len(samples.series)
        samples = of_devices(samples, self._numbers, self._name, rejects)
        if not len(samples.series):
            raise UnreadableInput(
                f"{self._address} answered without a single DCGM sample ({len(body):,} bytes); check that it is "
                "dcgm-exporter and that it sees its GPUs"
            )
        batches: list[Records | Points] = []
        if self._numbers.new_contexts:
            batches.append(context_records(self._numbers.new_contexts))
        samples = in_units(timed(samples, at_us), self._numbers, self._name, rejects)
        batches += points([samples], self._numbers)
        batches += self._links.records(body, self._cluster, at_us)
        return Page(batches, len(samples.series), self._done + len(self._numbers.new_contexts), rejects)

    def _samples(self, body: bytes, rejects: Rejects) -> Samples:
        """The samples of a page."""
        if (samples := self._repeats.read(body)) is not None:
            return samples
        samples = joined(list(self._reader.read(io.BytesIO(body))))
        if rejects.total:
            self._repeats.forget()
        else:
            self._repeats.learn(body, samples)
        return samples

    def committed(self, contexts: int) -> None:
        """Marks a page as stored, by its `contexts`."""
        stored = max(0, contexts - self._done)
        del self._numbers.new_contexts[:stored]
        self._done += stored

    def lost(self) -> None:
        """Marks the last page as lost: rows that are sent only on change are sent again."""
        self._links = Links()

    def _forget(self) -> None:
        self._reader.forget()
        self._repeats.forget()
        self._numbers.forget()
        self._done += len(self._numbers.new_contexts)
        self._numbers.new_contexts.clear()  # those in use are recorded again

    def _number_of(self, name: str, labels: dict[str, str]) -> int:
        for label, value in self._labels.items():
            if label in labels:
                labels[f"exported_{label}"] = labels[label]
            labels[label] = value
        return self._numbers.number_of(name, labels)
