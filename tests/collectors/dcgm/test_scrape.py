"""Live scraping of real sockets: good pages, every way to fail, and that one failure stays alone."""

from __future__ import annotations

import asyncio
import gzip
import shutil
import ssl
import subprocess
import time
from base64 import b64encode
from collections.abc import Awaitable, Callable, Sequence
from contextlib import asynccontextmanager, suppress
from dataclasses import replace
from email.utils import formatdate
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest

from gpuwatch.collectors.dcgm.scrape import source as scrape_source
from gpuwatch.collectors.dcgm.scrape.config import Target
from gpuwatch.collectors.dcgm.scrape.http import Client, fetch
from gpuwatch.collectors.dcgm.scrape.source import MAX_PAUSE_US, DcgmSource, Page, Pages, configure
from gpuwatch.collectors.shared.clock import offset_us
from gpuwatch.collectors.shared.credentials import Credentials, Secret, Tls
from gpuwatch.core.clock import SECOND_US
from gpuwatch.core.errors import SourceUnreachable, StoreBusy, UnreadableInput
from gpuwatch.core.model import Points, Records, Rejects
from gpuwatch.core.registry import live_kinds
from tests.worlds.patience import PATIENCE_S

pytest.importorskip("aiohttp")

SM = "DCGM_FI_PROF_SM_ACTIVE"
LABELS = 'gpu="0",UUID="GPU-a",Hostname="n1"'
PAGE = f"# HELP {SM} busy\n# TYPE {SM} gauge\n{SM}{{{LABELS}}} 0.5\nDCGM_FI_DEV_GPU_UTIL{{{LABELS}}} 50\n".encode()
NOW_US = 1_795_226_909_000_000

Answer = Callable[[asyncio.StreamWriter, str], Awaitable[None]]


def says(body: bytes, status: str = "200 OK", *headers: str, kind: str = "text/plain; version=0.0.4") -> Answer:
    """Answers every request with the body."""

    async def answer(writer: asyncio.StreamWriter, request: str) -> None:
        head = [f"HTTP/1.1 {status}", f"Content-Type: {kind}", f"Content-Length: {len(body)}", *headers]
        writer.write("\r\n".join([*head, "", ""]).encode() + body)

    return answer


def raw(*pieces: bytes, pause_s: float = 0.0) -> Answer:
    """Writes the bytes, then closes the connection."""

    async def answer(writer: asyncio.StreamWriter, request: str) -> None:
        for piece in pieces:
            writer.write(piece)
            await writer.drain()
            await asyncio.sleep(pause_s)
        writer.close()

    return answer


def packed(body: bytes) -> Answer:
    """Answers in gzip."""
    return says(gzip.compress(body), "200 OK", "Content-Encoding: gzip")


def only_with(authorization: str) -> Answer:
    """Answers 401 unless the request has that header."""

    async def answer(writer: asyncio.StreamWriter, request: str) -> None:
        good = f"authorization: {authorization}".lower() in request.lower()
        await (says(PAGE) if good else says(b"no\n", "401 Unauthorized"))(writer, request)

    return answer


async def hang(writer: asyncio.StreamWriter, request: str) -> None:
    """Takes the request and never answers."""
    await asyncio.sleep(3600)


@asynccontextmanager
async def exporter(answer: Answer, context: ssl.SSLContext | None = None) -> Any:
    """A server on a free port; yields its address."""
    tasks: set[asyncio.Task[Any]] = set()

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        tasks.add(asyncio.current_task())  # type: ignore[arg-type]
        with suppress(ConnectionError, asyncio.IncompleteReadError, asyncio.CancelledError):
            while not writer.is_closing():
                request = await reader.readuntil(b"\r\n\r\n")
                await answer(writer, request.decode())
        writer.close()

    server = await asyncio.start_server(serve, "127.0.0.1", 0, ssl=context)
    scheme = "https" if context else "http"
    yield f"{scheme}://127.0.0.1:{server.sockets[0].getsockname()[1]}/metrics"
    server.close()
    for task in tasks:
        task.cancel()


class FakeSink:
    """Remembers what sources say, and ends the run after enough of it."""

    def __init__(self, rounds: int, busy: int = 0) -> None:
        self.committed: list[tuple[str, list[Records | Points], Rejects | None]] = []
        self.good: list[tuple[str, int, int]] = []
        self.bad: list[tuple[str, int, str]] = []
        self.clocks: list[tuple[str, str, int, int]] = []
        self.enough = asyncio.Event()
        self._rounds, self._busy = rounds, busy

    async def commit(self, source: str, batches: Sequence[Records | Points], rejects: Rejects | None = None) -> None:
        if self._busy:
            self._busy -= 1
            raise StoreBusy("the queue is full")
        self.committed.append((source, list(batches), rejects))

    def succeeded(self, source: str, at_us: int, samples: int) -> None:
        self.good.append((source, at_us, samples))
        self._count()

    def failed(self, source: str, at_us: int, error: str) -> None:
        self.bad.append((source, at_us, error))
        self._count()

    def added(self, source: Any) -> None:
        """Nothing is listed here."""

    def dropped(self, source: str) -> None:
        """Nothing is listed here."""

    def clock(self, cluster: str, name: str, offset_us: int, at_us: int) -> None:
        self.clocks.append((cluster, name, offset_us, at_us))

    async def open_claims(self, cluster: str, scheduler: str) -> list[dict[str, Any]]:
        return []

    def _count(self) -> None:
        self._rounds -= 1
        if self._rounds <= 0:
            self.enough.set()


def wall_us() -> int:
    """The clock of this machine, microseconds."""
    return time.time_ns() // 1000


async def run(sink: FakeSink, *sources: DcgmSource) -> None:
    """Runs sources until the sink has enough."""
    tasks = [asyncio.create_task(source.run(sink, wall_us)) for source in sources]
    try:
        await asyncio.wait_for(sink.enough.wait(), PATIENCE_S)
    finally:
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)


def target(url: str, **more: Any) -> Target:
    """A target scraped every 50 ms."""
    return replace(Target(url, "c1", interval_s=0.05, timeout_s=5.0, labels={"instance": "n9:9400"}), **more)


def fetched(answer: Answer, **more: Any) -> bytes:
    """The page of a server that answers so."""

    async def work() -> bytes:
        client = Client(1)
        async with exporter(answer) as url, client.session() as session:
            return await fetch(session, target(url, **more))

    return asyncio.run(work())


@pytest.mark.parametrize(
    ("answer", "more"),
    [
        pytest.param(says(PAGE), {}, id="plain"),
        pytest.param(packed(PAGE), {}, id="gzip"),
        pytest.param(
            raw(b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n", b"%x\r\n%s\r\n0\r\n\r\n" % (len(PAGE), PAGE)),
            {},
            id="chunked",
        ),
        pytest.param(raw(b"HTTP/1.0 200 OK\r\n\r\n" + PAGE), {}, id="until the connection closes"),
        pytest.param(
            only_with("Basic " + b64encode(b"me:s3cret").decode()),
            {"credentials": Credentials("me", Secret("s3cret"))},
            id="basic authentication",
        ),
        pytest.param(
            only_with("Bearer t0ken"),
            {"credentials": Credentials(bearer_token=Secret("t0ken"))},
            id="bearer token",
        ),
        pytest.param(says(PAGE), {"max_bytes": len(PAGE)}, id="as large as allowed"),
        pytest.param(packed(PAGE), {"max_bytes": len(PAGE)}, id="as large as allowed after decompression"),
    ],
)
def test_a_page_is_read(answer: Answer, more: dict[str, Any]) -> None:
    assert PAGE == fetched(answer, **more)


BROKE_OFF = "broke off its answer"


@pytest.mark.parametrize(
    ("answer", "words"),
    [
        pytest.param(only_with("Bearer other"), "answered 401 Unauthorized; check username and password", id="401"),
        pytest.param(
            says(b"", "403 Forbidden"), "answered 403 Forbidden; these credentials have no read permission", id="403"
        ),
        pytest.param(says(b"", "404 Not Found"), "answered 404 Not Found; check the path", id="404"),
        pytest.param(
            says(PAGE, "500 Internal Server Error"), "answered 500 Internal Server Error; see its log", id="500"
        ),
        pytest.param(
            says(b"", "302 Found", "Location: http://u:pw@n2/x?token=s3cret"),
            r"answered 302, a redirect to http://n2/x; put the final address into targets",
            id="a redirect",
        ),
        pytest.param(hang, r"gave no complete answer within 0\.5 s", id="no answer"),
        pytest.param(
            raw(b"HTTP/1.1 200 OK\r\nContent-Length: 99\r\n\r\n", *(b"#" for _ in range(50)), pause_s=0.02),
            r"gave no complete answer within 0\.5 s",
            id="a slow drip",
        ),
        pytest.param(says(PAGE + b"#" * 1000), r"answered with more than max_bytes \(1,000\)", id="too large"),
        pytest.param(
            packed(PAGE + b"#" * 50_000_000), r"answered with more than max_bytes \(1,000\)", id="a gzip bomb"
        ),
        pytest.param(
            raw(b"HTTP/1.1 200 OK\r\n\r\n", *(b"#" * 100_000 for _ in range(100))),
            r"answered with more than max_bytes \(1,000\)",
            id="too large without a length",
        ),
        pytest.param(says(b"<html>", kind="text/html; charset=utf-8"), "answered with an HTML page", id="HTML"),
        pytest.param(raw(b"HTTP/1.1 200 OK\r\nContent-Length: 999\r\n\r\n" + PAGE), BROKE_OFF, id="torn by length"),
        pytest.param(
            raw(b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n%x\r\n%s" % (len(PAGE), PAGE)),
            BROKE_OFF,
            id="torn in a chunk",
        ),
        pytest.param(raw(b"HTTP/1.0 200 OK\r\n\r\n" + PAGE[:-2]), BROKE_OFF, id="torn in a line"),
        pytest.param(
            says(gzip.compress(PAGE)[:-9], "200 OK", "Content-Encoding: gzip"), BROKE_OFF, id="torn in its gzip data"
        ),
        pytest.param(says(PAGE, "200 OK", "Content-Encoding: gzip"), "sent damaged gzip data", id="no gzip at all"),
        pytest.param(says(PAGE, "200 OK", "Content-Encoding: br"), "answered in encoding 'br'", id="another encoding"),
        pytest.param(raw(), "closed the connection without an answer", id="closed at once"),
        pytest.param(raw(b"SSH-2.0-OpenSSH_9.2\r\n"), "did not answer in valid HTTP", id="another protocol"),
    ],
)
def test_a_failure_says_what_and_what_to_do(answer: Answer, words: str) -> None:
    with pytest.raises(SourceUnreachable, match=r"^http://127\.0\.0\.1:\d+/metrics " + words) as error:
        timeout_s = 0.5 if "complete answer" in words else 5.0
        fetched(answer, max_bytes=1_000, timeout_s=timeout_s, credentials=Credentials(bearer_token=Secret("t0ken")))

    assert not {"t0ken", "s3cret"} & set(str(error.value).replace("=", " ").split())


def test_nobody_listens_there() -> None:
    async def work() -> None:
        async with exporter(hang) as url:
            free = url
        client = Client(1)
        async with client.session() as session:
            await fetch(session, target(free))

    with pytest.raises(
        SourceUnreachable, match=r"cannot be reached \(connection refused\); check that dcgm-exporter runs"
    ):
        asyncio.run(work())


def test_a_secret_file_is_read_again_when_it_changes(tmp_path: Path) -> None:
    file = tmp_path / "token"
    file.write_text("old\n")
    secret = Secret(file=str(file))

    assert "old" == secret.read()

    (tmp_path / "new").write_text("new\n")
    (tmp_path / "new").replace(file)

    assert "new" == secret.read()

    file.unlink()
    with pytest.raises(ValueError, match="token: No such file"):
        secret.read()

    file.write_text("back")

    assert "back" == secret.read()


def test_a_secret_that_is_gone_is_reported_and_nobody_is_asked(tmp_path: Path) -> None:
    (tmp_path / "token").write_text("t0ken")
    secret = Secret(file=str(tmp_path / "token"))
    (tmp_path / "token").unlink()

    with pytest.raises(SourceUnreachable, match="was not scraped: .*token: No such file or directory"):
        fetched(says(PAGE), credentials=Credentials(bearer_token=secret))


def read(pages: Pages, body: bytes, at_us: int = NOW_US) -> tuple[list[dict[str, Any]], list[tuple[str, int, float]]]:
    """Contexts and (field, time, value) of a page."""
    page = pages.page(body, at_us)
    batches = page.batches
    contexts = [row for batch in batches if isinstance(batch, Records) for row in batch.rows.to_pylist()]
    readings = [
        (batch.series["field"][point["series"]].as_py(), point["observed_us"], point["value"])
        for batch in batches
        if isinstance(batch, Points)
        for point in batch.rows.to_pylist()
    ]
    assert len(readings) == page.samples
    return contexts, readings


def test_the_samples_of_a_scrape_carry_its_time_unless_they_have_their_own() -> None:
    own_ms = NOW_US // 1000 - 7_000
    page = PAGE + f'{SM}{{gpu="1",UUID="GPU-b",Hostname="n1"}} 0.75 {own_ms}\n'.encode()
    _, readings = read(Pages(target("http://n1:9400/metrics"), "dcgm n1"), page)

    assert [
        ("sm_active_ratio", NOW_US, 0.5),
        ("gpu_util_ratio", NOW_US, 0.5),
        ("sm_active_ratio", own_ms * 1000, 0.75),
    ] == readings


def test_contexts_repeat_until_they_are_committed() -> None:
    pages = Pages(target("http://n1:9400/metrics"), "dcgm n1")
    first, second = (read(pages, PAGE)[0] for _ in range(2))
    pages.committed(1)
    third, readings = read(pages, PAGE)

    assert (["GPU-a"], ["GPU-a"], []) == tuple([row["gpu"] for row in rows] for rows in (first, second, third))
    assert 2 == len(readings)


@pytest.mark.parametrize(
    ("page_labels", "more", "node"),
    [
        pytest.param('UUID="GPU-a"', {"instance": "n9:9400"}, "n9", id="the target when the page has no host name"),
        pytest.param('UUID="GPU-a",Hostname="n1"', {"instance": "n9:9400"}, "n1", id="the host name of the page"),
        pytest.param('UUID="GPU-a",Hostname="pod-x"', {"node": "n7"}, "n7", id="a target label names the node"),
        pytest.param('UUID="GPU-a",node="n1"', {"node": "n7"}, "n7", id="a target label displaces the page's"),
    ],
)
def test_the_node_of_a_sample(page_labels: str, more: dict[str, str], node: str) -> None:
    pages = Pages(target("http://n9:9400/metrics", labels=more), "dcgm n9")
    contexts, _ = read(pages, f"{SM}{{{page_labels}}} 0.5\n".encode())

    assert [node] == [row["node"] for row in contexts]


@pytest.mark.parametrize(
    ("body", "words"),
    [
        pytest.param(b"", "without a single DCGM sample", id="empty"),
        pytest.param(b"go_goroutines 7\n", "without a single DCGM sample", id="another exporter"),
        pytest.param(b"\n <!DOCTYPE html><p>log in</p>", "an HTML page", id="HTML under another name"),
    ],
)
def test_a_page_without_a_dcgm_sample_is_refused(body: bytes, words: str) -> None:
    with pytest.raises(UnreadableInput, match=words):
        Pages(target("http://n1:9400/metrics"), "dcgm n1").page(body, NOW_US)


def test_bad_lines_are_reported_with_their_line_in_each_page() -> None:
    pages = Pages(target("http://n1:9400/metrics"), "dcgm n1")
    found = [pages.page(PAGE + b"DCGM_FI_DEV_GPU_UTIL{broken\n", NOW_US).rejects for _ in range(2)]

    assert [("dcgm n1", 5)] * 2 == [rejects.first["not a Prometheus sample line"][:2] for rejects in found]


def test_a_context_of_a_page_that_is_not_on_disk_yet_repeats() -> None:
    """Two pages wait for the disk, and the first gets there."""
    pages = Pages(target("http://n1:9400/metrics"), "dcgm n1")
    first = pages.page(PAGE, NOW_US)
    both = PAGE + f'{SM}{{gpu="1",UUID="GPU-b",Hostname="n1"}} 0.75\n'.encode()
    second = pages.page(both, NOW_US)
    pages.committed(first.contexts)

    assert ["GPU-b"] == [row["gpu"] for row in read(pages, both)[0]]

    pages.committed(second.contexts)
    pages.committed(first.contexts)

    assert [] == read(pages, both)[0]


def test_a_disk_that_hangs_delays_no_beat(monkeypatch: pytest.MonkeyPatch) -> None:
    """Up to as many scrapes as may wait for it."""
    monkeypatch.setattr(scrape_source, "MAX_STORING", 3)

    class Hung(FakeSink):
        async def commit(self, source: str, batches: Sequence[Any], rejects: Rejects | None = None) -> None:
            await super().commit(source, batches, rejects)
            self._count()
            await asyncio.Event().wait()

    async def work() -> FakeSink:
        sink = Hung(rounds=3)
        async with exporter(says(PAGE)) as url:
            await run(sink, DcgmSource(target(url), Client(1)))
        return sink

    assert 3 == len(asyncio.run(work()).committed)


def test_links_of_an_agents_page_are_reported_once_and_again_when_they_were_lost() -> None:
    page = PAGE + b'gpuwatch_gpu_link_info{node="n1",a="GPU0",b="GPU1",level="NV18"} 1\n'
    pages = Pages(target("http://n1:9400/metrics"), "dcgm n1")

    def links() -> list[str]:
        batches = pages.page(page, NOW_US).batches
        rows = [row for b in batches if isinstance(b, Records) and b.table == "link" for row in b.rows.to_pylist()]
        return [f"{row['a']} {row['b']} {row['level']}" for row in rows]

    first, second = links(), links()
    pages.lost()

    assert "GPU0 GPU1 NV18" in first
    assert [first, [], first] == [first, second, links()]


def test_series_that_are_gone_are_forgotten(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(scrape_source, "SERIES_LEAST", 10)
    pages = Pages(target("http://n1:9400/metrics"), "dcgm n1")
    for number in range(30):
        read(pages, f'{SM}{{UUID="GPU-a",gpu="0",Hostname="n1",pod="p{number}"}} 0.5\n'.encode())

    assert len(pages._reader) <= 13


def source(url: str = "http://n1:9400/metrics", interval_s: float = 15.0) -> DcgmSource:
    """A source of its own client."""
    return DcgmSource(target(url, interval_s=interval_s), Client(1))


def test_beats_are_spaced_exactly_and_differ_by_target() -> None:
    one, other = source(), source("http://n2:9400/metrics")
    beats = [one.next_scrape(NOW_US, 0)]
    for _ in range(3):
        beats.append(one.next_scrape(beats[-1] + 1_700_000, beats[-1]))

    assert [15 * SECOND_US] * 3 == [after - before for before, after in pairwise(beats)]
    assert NOW_US < beats[0] <= NOW_US + 15 * SECOND_US
    assert (other.next_scrape(NOW_US, 0) - beats[0]) % (15 * SECOND_US)


def test_a_beat_comes_once_even_when_the_clock_wakes_early() -> None:
    one = source()
    beat = one.next_scrape(NOW_US, 0)

    assert beat + 15 * SECOND_US == one.next_scrape(beat - 500, beat)


def test_a_clock_set_back_does_not_stop_the_beats() -> None:
    one = source()
    hour_ago = NOW_US - 3600 * SECOND_US

    assert hour_ago < one.next_scrape(hour_ago, NOW_US) <= hour_ago + 15 * SECOND_US


def test_a_failing_target_is_asked_less_often_but_at_least_every_few_minutes() -> None:
    one = source()
    pauses = [one.pause(failures) for failures in range(40)]

    assert [0, 0] == pauses[:2]
    assert 15 * SECOND_US <= pauses[2] <= 30 * SECOND_US
    assert all(MAX_PAUSE_US // 2 <= pause <= MAX_PAUSE_US for pause in pauses[6:])
    assert len(set(pauses[6:])) > 10


def test_scrapes_follow_each_other_and_are_committed_whole() -> None:
    async def work() -> FakeSink:
        sink = FakeSink(rounds=4)
        async with exporter(says(PAGE)) as url:
            await run(sink, DcgmSource(target(url), Client(1)))
        return sink

    sink = asyncio.run(work())
    times = [
        {t for b in batches if isinstance(b, Points) for t in b.rows["observed_us"].to_pylist()}
        for _, batches, _ in sink.committed
    ]

    assert [] == sink.bad
    assert [2] * 4 == [samples for _, _, samples in sink.good]
    assert [{at_us} for _, at_us, _ in sink.good] == times[:4]


def test_the_clock_of_a_target_is_read_from_its_answers_once_a_minute() -> None:
    async def work() -> FakeSink:
        dated = formatdate(time.time() + 90, usegmt=True)
        async with exporter(says(PAGE, "200 OK", f"Date: {dated}")) as url:
            sink = FakeSink(3)
            await run(sink, source(url, interval_s=0.05))
        return sink

    clocks = asyncio.run(work()).clocks

    assert 1 == len(clocks)
    assert 88.5e6 <= clocks[0][2] <= 91.5e6


@pytest.mark.parametrize(
    ("date", "answered_s", "expected_s"),
    [
        pytest.param("Thu, 01 Jan 1970 01:00:00 GMT", 5.0, None, id="an answer that took long"),
        pytest.param("", 0.0, None, id="no date"),
        pytest.param("yesterday", 0.0, None, id="no date that can be read"),
        pytest.param("Thu, 01 Jan 1970 01:00:00 -0000", 0.0, None, id="no zone"),
        pytest.param("Thu, 01 Jan 1970 01:00:00 GMT", 0.0, 0.5, id="the middle of its second"),
        pytest.param("Thu, 01 Jan 1970 01:00:00 GMT", 1.0, 0.0, id="beside the middle of the answer"),
        pytest.param("Thu, 01 Jan 1970 00:59:00 GMT", 1.0, -60.0, id="behind"),
    ],
)
def test_how_far_a_clock_is_ahead(date: str, answered_s: float, expected_s: float | None) -> None:
    asked_us = 3600 * SECOND_US
    expected = None if expected_s is None else round(expected_s * SECOND_US)

    assert expected == offset_us(date, asked_us, asked_us + round(answered_s * SECOND_US))


def test_an_exporter_that_closes_the_connection_after_each_answer_loses_nothing() -> None:
    whole = b"HTTP/1.1 200 OK\r\nContent-Length: %d\r\n\r\n%s" % (len(PAGE), PAGE)

    async def work() -> FakeSink:
        sink = FakeSink(rounds=3)
        async with exporter(raw(whole)) as url:
            await run(sink, DcgmSource(target(url), Client(1)))
        return sink

    assert [] == asyncio.run(work()).bad


def test_a_large_page_is_read_beside_the_others() -> None:
    count = 3_000
    large = "".join(
        f'{SM}{{UUID="GPU-{number}",gpu="0",Hostname="n1",pod="{"p" * 60}"}} 0.5\n' for number in range(count)
    )

    async def work() -> FakeSink:
        sink = FakeSink(rounds=1)
        async with exporter(says(large.encode())) as url:
            await run(sink, DcgmSource(target(url), Client(1)))
        return sink

    sink = asyncio.run(work())

    assert scrape_source.INLINE_BYTES < len(large)
    assert ([], count) == (sink.bad, sink.good[0][2])


def test_a_fault_of_our_own_is_reported_and_the_rounds_go_on(monkeypatch: pytest.MonkeyPatch) -> None:
    broken = [True]

    def page_once(pages: Pages, body: bytes, at_us: int) -> Page:
        if broken.pop() if broken else False:
            raise ZeroDivisionError("oops")
        return Page([], 0, 0, Rejects())

    monkeypatch.setattr(Pages, "page", page_once)

    async def work() -> FakeSink:
        sink = FakeSink(rounds=2)
        async with exporter(says(PAGE)) as url:
            await run(sink, DcgmSource(target(url), Client(1)))
        return sink

    sink = asyncio.run(work())

    assert ["failed: ZeroDivisionError: oops"] == [error.partition("metrics ")[2] for _, _, error in sink.bad]
    assert 1 <= len(sink.good)


def test_a_busy_store_costs_one_scrape_and_no_context() -> None:
    async def work() -> FakeSink:
        sink = FakeSink(rounds=2, busy=1)
        async with exporter(says(PAGE)) as url:
            await run(sink, DcgmSource(target(url), Client(1)))
        return sink

    sink = asyncio.run(work())

    assert ["was read, but the scrape is lost: the queue is full"] == [
        e.partition("metrics ")[2] for _, _, e in sink.bad
    ]
    assert 1 == sum(isinstance(batch, Records) for batch in sink.committed[0][1])


def test_a_target_that_comes_back_is_read_again() -> None:
    answers = [says(b"", "500 Oops"), says(PAGE)]

    async def answer(writer: asyncio.StreamWriter, request: str) -> None:
        await (answers.pop(0) if len(answers) > 1 else answers[0])(writer, request)

    async def work() -> FakeSink:
        sink = FakeSink(rounds=3)
        async with exporter(answer) as url:
            await run(sink, DcgmSource(target(url), Client(1)))
        return sink

    sink = asyncio.run(work())

    assert (1, 2) == (len(sink.bad), len(sink.good[:2]))


def test_targets_that_hang_delay_no_other() -> None:
    async def work() -> tuple[FakeSink, str]:
        sink = FakeSink(rounds=6)
        client = Client(150)
        async with exporter(hang) as hung, exporter(says(PAGE)) as good:
            stuck = [DcgmSource(target(f"{hung}/{n}", timeout_s=2 * PATIENCE_S), client) for n in range(149)]
            await run(sink, *stuck, DcgmSource(target(good), client))
        return sink, good

    sink, good = asyncio.run(work())

    assert [] == sink.bad
    assert {f"dcgm {good}"} == {name for name, _, _ in sink.good}


def test_the_last_source_closes_the_session() -> None:
    async def work() -> tuple[Client, Any]:
        client = Client(2)
        async with client.session() as first:
            async with client.session() as second:
                assert first is second
            assert not first.closed
        return client, first

    client, session = asyncio.run(work())

    assert session.closed
    assert client._session is None


@pytest.fixture(scope="module")
def certificate(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Path]:
    """A self-signed certificate of 127.0.0.1 and its key."""
    if shutil.which("openssl") is None:
        pytest.skip("no openssl program: install the package openssl")
    folder = tmp_path_factory.mktemp("tls")
    cert, key = folder / "cert.pem", folder / "key.pem"
    command = "openssl req -x509 -newkey ec -pkeyopt ec_paramgen_curve:prime256v1 -nodes -days 2 -subj /CN=n1"
    names = ["-addext", "subjectAltName=IP:127.0.0.1", "-keyout", str(key), "-out", str(cert)]
    subprocess.run([*command.split(), *names], check=True, capture_output=True)
    return cert, key


def fetched_by_tls(certificate: tuple[Path, Path], tls: Tls, ask_client: bool = False) -> bytes:
    """The page of a TLS server."""
    cert, key = certificate
    context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH, cafile=str(cert))
    context.load_cert_chain(cert, key)
    context.verify_mode = ssl.CERT_REQUIRED if ask_client else ssl.CERT_NONE

    async def work() -> bytes:
        client = Client(1)
        async with exporter(says(PAGE), context) as url, client.session() as session:
            return await fetch(session, target(url, tls=tls))

    return asyncio.run(work())


def test_tls_with_a_trusted_certificate_a_client_certificate_or_no_check(certificate: tuple[Path, Path]) -> None:
    cert, key = map(str, certificate)

    assert PAGE == fetched_by_tls(certificate, Tls(ca=cert))
    assert PAGE == fetched_by_tls(certificate, Tls(insecure=True))
    assert PAGE == fetched_by_tls(certificate, Tls(ca=cert, cert=cert, key=key), ask_client=True)


def test_an_untrusted_certificate_is_reported(certificate: tuple[Path, Path]) -> None:
    with pytest.raises(SourceUnreachable, match=r"failed the TLS handshake \(self.signed certificate\); check ca_file"):
        fetched_by_tls(certificate, Tls())


def test_plain_http_behind_https_is_reported() -> None:
    async def work() -> None:
        client = Client(1)
        server = await asyncio.start_server(lambda _, writer: writer.write(b"HTTP/1.1 400 Bad\r\n\r\n"), "127.0.0.1", 0)
        async with client.session() as session:
            url = f"https://127.0.0.1:{server.sockets[0].getsockname()[1]}/metrics"
            await fetch(session, target(url, tls=Tls()))

    with pytest.raises(SourceUnreachable, match="failed the TLS handshake"):
        asyncio.run(work())


def test_a_table_makes_a_source_a_target() -> None:
    problems: list[str] = []
    tables = [
        {"cluster": "c1", "targets": ["n1", "n2:9401", "https://n3/m"]},
        {"targets": ["[::1]:9400"], "interval_s": 5},
    ]
    sources = configure(tables, problems)

    assert [] == problems
    assert [
        ("dcgm http://n1:9400/metrics", "c1", 15.0),
        ("dcgm http://n2:9401/metrics", "c1", 15.0),
        ("dcgm https://n3:443/m", "c1", 15.0),
        ("dcgm http://[::1]:9400/metrics", "default", 5.0),
    ] == [(s.name, s.cluster, s.interval_s) for s in sources]
    assert configure is live_kinds()["dcgm"].configure


@pytest.mark.parametrize(
    ("table", "words"),
    [
        pytest.param({}, "targets: must be a list", id="no targets"),
        pytest.param({"targets": "n1:9400"}, "targets: must be a list", id="targets as text"),
        pytest.param({"targets": ["ftp://n1"]}, "ftp://n1 is not an address", id="another scheme"),
        pytest.param({"targets": ["n1:x"]}, "n1:x is not an address", id="a port that is no number"),
        pytest.param({"targets": [7]}, "an address must be text", id="a number"),
        pytest.param({"targets": ["http://u:s3cret@n1"]}, "http://n1: credentials belong in", id="credentials in it"),
        pytest.param({"targets": ["n1", "n1:9400"]}, "http://n1:9400/metrics is listed twice", id="the same twice"),
        pytest.param({"interval_s": 0}, "interval_s: must be a number from 1 to 3600, not 0", id="no interval"),
        pytest.param(
            {"interval_s": "15s"}, "interval_s: must be a number from 1 to 3600, not '15s'", id="an interval in words"
        ),
        pytest.param({"timeout_s": 15}, r"timeout_s: 15 must be less than interval_s \(15\)", id="a long timeout"),
        pytest.param({"max_bytes": 10}, r"max_bytes: must be a number from 1000 to 2.56e\+08, not 10", id="no room"),
        pytest.param({"username": "me"}, "username: belongs together with password", id="no password"),
        pytest.param(
            {"bearer_token": "x", "username": "u", "password": "p"}, "not both", id="two kinds of credentials"
        ),
        pytest.param({"bearer_token": "x", "bearer_token_file": __file__}, "not both", id="a secret twice"),
        pytest.param({"bearer_token_file": "/no/such"}, "/no/such: No such file", id="no token file"),
        pytest.param(
            {"ca_file": "/no/such"},
            "ca_file, cert_file, key_file: (/no/such|ca_file, cert_file or key_file): No such file",
            id="no ca_file",
        ),
        pytest.param({"ca_file": __file__}, "holds no PEM certificate", id="a ca_file that is none"),
        pytest.param({"key_file": "/k"}, "key_file: needs cert_file", id="a key alone"),
        pytest.param({"insecure_skip_verify": "yes"}, "must be true or false", id="no truth value"),
        pytest.param({"labels": {"a-b": "x"}}, "labels: a-b = 'x' is not a label", id="a bad label"),
        pytest.param({"labels": ["a"]}, "labels: must be", id="labels that are a list"),
        pytest.param({"cluster": ""}, "cluster: must not be empty", id="an empty cluster"),
        pytest.param(
            {"intervall_s": 1},
            r"intervall_s: is not an option of this table; did you mean interval_s\?",
            id="a misspelling",
        ),
    ],
)
def test_a_wrong_value_is_named(table: dict[str, Any], words: str) -> None:
    problems: list[str] = []
    given = table if "targets" in table or not table else {"targets": ["n1"]} | table
    configure([given], problems)

    assert len(problems) == 1, problems
    with pytest.raises(ValueError, match=r"^\[\[dcgm\]\] table 1: .*(" + words + ")"):
        raise ValueError(problems[0])
    assert "s3cret" not in problems[0]


def test_all_wrong_values_are_named_at_once() -> None:
    problems: list[str] = []
    configure([{"targets": ["n1"]}, {"targets": ["n1", "x y"], "interval_s": -1, "nodes": []}], problems)

    assert 4 == len(problems)
    assert all(text.startswith("[[dcgm]] table 2: ") for text in problems)
