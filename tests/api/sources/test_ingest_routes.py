"""POST /write and /events: what is stored, what is refused, and who is told to come back."""

from __future__ import annotations

import asyncio
import gzip
import threading
from collections.abc import Callable
from concurrent.futures import Future
from contextlib import AbstractContextManager

import httpx
import pyarrow as pa
import pytest

from gpuwatch.api.shares import DECODED_MAX, WEIGHT_MIN
from gpuwatch.collectors.push.remote_write_wire import wire
from gpuwatch.core.errors import StoreBusy, StoreError, UnreadableInput
from gpuwatch.core.model import Rejects
from gpuwatch.service.pushed import Received
from gpuwatch.store.database import Store
from tests.worlds.api import NOW_US, Api
from tests.worlds.patience import PATIENCE_S

WRITE, EVENTS = "/api/v1/write", "/api/v1/events"
PROTO = {"Content-Type": "application/x-protobuf", "Content-Encoding": "snappy"}
BODY = pa.Codec("snappy").compress(b"", asbytes=True)


def request_2(*samples: tuple[str, int, float]) -> bytes:
    """A body of version 2.0 with samples (name, milliseconds, value) of one GPU."""
    messages = wire()
    symbols = ["", "__name__", "UUID", "GPU-a", "Hostname", "n1", "gpu", "0"]
    series = []
    for name, at_ms, value in samples:
        symbols.append(name)
        one = messages.series_2(labels_refs=[1, len(symbols) - 1, 2, 3, 4, 5, 6, 7])
        one.samples.add(value=value, timestamp=at_ms)
        series.append(one.SerializeToString())
    whole: bytes = messages.request_2(symbols=[s.encode() for s in symbols], timeseries=series).SerializeToString()
    return whole


def answering(api: Api, monkeypatch: pytest.MonkeyPatch, outcome: Received | Exception) -> list[tuple[object, ...]]:
    """Makes the decoder answer so; returns what it is asked, as it is asked."""
    asked: list[tuple[object, ...]] = []

    def receive(*arguments: object, decoded: Callable[[], None]) -> Future[Received]:
        asked.append(arguments)
        decoded()
        done: Future[Received] = Future()
        if isinstance(outcome, Exception):
            done.set_exception(outcome)
        else:
            done.set_result(outcome)
        return done

    monkeypatch.setattr(api.service, "receive", receive)
    return asked


def test_an_empty_write_is_stored(bare: Api) -> None:
    """Through the real decoder and the writer, to the disk."""
    answer = bare.request("POST", WRITE, content=BODY, headers=PROTO)

    assert (204, b"", False) == (answer.status_code, answer.content, "x-gpuwatch-rejected" in answer.headers)


def test_a_torn_write_is_never_to_be_sent_again(bare: Api) -> None:
    """400 for protobuf that is none, through the real decoder."""
    body = pa.Codec("snappy").compress(b"\x0a\xff\xff", asbytes=True)

    assert 400 == bare.request("POST", WRITE, content=body, headers=PROTO).status_code


@pytest.mark.parametrize(
    ("headers", "status"),
    [
        pytest.param({"Content-Type": "application/json"}, 415, id="another type"),
        pytest.param({"Content-Type": "application/x-protobuf;proto=io.prometheus.write.v3.Request"}, 415, id="3.0"),
        pytest.param({"Content-Type": "application/x-protobuf", "Content-Encoding": "zstd"}, 415, id="zstd"),
        pytest.param({"Content-Type": "application/x-protobuf;proto=prometheus.WriteRequest"}, 204, id="1.0 by name"),
        pytest.param({"Content-Type": "application/x-protobuf;proto=io.prometheus.write.v2.Request"}, 204, id="2.0"),
        pytest.param({"Content-Type": "application/x-protobuf"}, 204, id="snappy goes without saying"),
        pytest.param({**PROTO, "X-Gpuwatch-Cluster": "no spaces"}, 400, id="a cluster that is no name"),
    ],
)
def test_types_of_a_write(bare: Api, headers: dict[str, str], status: int) -> None:
    """Version 1.0 and 2.0 of remote-write."""
    assert status == bare.request("POST", WRITE, content=BODY, headers=headers).status_code


@pytest.mark.parametrize(
    ("path", "headers", "cluster"),
    [
        pytest.param(WRITE, {}, "default", id="none named"),
        pytest.param(f"{WRITE}?cluster=c7", {}, "c7", id="in the query"),
        pytest.param(WRITE, {"X-Gpuwatch-Cluster": "c8"}, "c8", id="in a header"),
        pytest.param(f"{WRITE}?cluster=c7", {"X-Gpuwatch-Cluster": "c8"}, "c7", id="the query wins"),
    ],
)
def test_the_cluster_of_a_write(
    bare: Api, monkeypatch: pytest.MonkeyPatch, path: str, headers: dict[str, str], cluster: str
) -> None:
    """And the name under which the sender is listed."""
    asked = answering(bare, monkeypatch, Received(0, Rejects()))
    bare.request("POST", path, content=BODY, headers={**PROTO, **headers})

    assert [("remote-write", b"", "application/x-protobuf", cluster, f"remote-write {cluster} (loopback)")] == asked


def test_refused_samples_are_counted(bare: Api, monkeypatch: pytest.MonkeyPatch) -> None:
    """The rest is stored, so it is 204 all the same."""
    rejects = Rejects()
    rejects.add("not a number", "write", 0, count=3)
    answering(bare, monkeypatch, Received(5, rejects))
    answer = bare.request("POST", WRITE, content=BODY, headers=PROTO)

    assert (204, "3") == (answer.status_code, answer.headers["x-gpuwatch-rejected"])


@pytest.mark.parametrize(
    ("cluster", "body", "refused"),
    [
        pytest.param(
            "q1", '{"kind":"ConfigMap","metadata":{"name":"c"}}', 0, id="a kind that is not read is no mistake"
        ),
        pytest.param("q2", '{"kind":"Pod"}', 1, id="a pod that nothing tells from others"),
        pytest.param("q3", '[{"kind":"Pod"},{"kind":"ConfigMap"}]', 1, id="only the mistake of the two counts"),
    ],
)
def test_the_answer_counts_what_quality_counts(bare: Api, cluster: str, body: str, refused: int) -> None:
    answer = bare.request(
        "POST", f"{EVENTS}?cluster={cluster}", content=body, headers={"Content-Type": "application/json"}
    )
    items = bare.request("GET", "/api/v1/quality").json()["items"]
    (source,) = (item for item in items if item["cluster"] == cluster)

    assert (204, refused) == (answer.status_code, int(answer.headers.get("x-gpuwatch-rejected", 0)))
    assert refused == source["rejected"] == sum(reject["count"] for reject in source["rejects"])


def test_a_sender_of_version_2_learns_what_is_on_disk(api: Api) -> None:
    """Else it takes the receiver for one of 1.0. The body is one reading, and one of another exporter."""
    body = request_2(("DCGM_FI_DEV_GPU_UTIL", NOW_US // 1000, 50.0), ("up", NOW_US // 1000, 1.0))
    kind = {**PROTO, "Content-Type": "application/x-protobuf;proto=io.prometheus.write.v2.Request"}
    answer = api.request("POST", WRITE, content=pa.Codec("snappy").compress(body, asbytes=True), headers=kind)

    assert [204, "1", "0", "0"] == [
        answer.status_code,
        *(
            answer.headers[f"x-prometheus-remote-write-{what}-written"]
            for what in ("samples", "histograms", "exemplars")
        ),
    ]
    assert "x-gpuwatch-rejected" not in answer.headers, "what is not read is no mistake"
    assert [(0.5,)] == api.service.store.sql("select gpu_util_ratio from sample_tail")


@pytest.mark.parametrize(
    ("error", "status", "retry"),
    [
        pytest.param(StoreBusy("full"), 503, "2", id="a full queue"),
        pytest.param(StoreError("no space left"), 503, "30", id="a full disk"),
        pytest.param(UnreadableInput("byte 7 is not protobuf"), 400, None, id="a body that nobody can read"),
    ],
)
def test_a_write_that_fails(
    bare: Api, monkeypatch: pytest.MonkeyPatch, error: Exception, status: int, retry: str | None
) -> None:
    """4xx: never again; 503: again later."""
    answering(bare, monkeypatch, error)
    answer = bare.request("POST", WRITE, content=BODY, headers=PROTO)

    assert (status, retry) == (answer.status_code, answer.headers.get("retry-after"))


def test_a_queue_that_is_full_at_once(bare: Api, monkeypatch: pytest.MonkeyPatch) -> None:
    """It says so before anything is queued."""

    def full(*_: object, decoded: Callable[[], None]) -> None:
        raise StoreBusy("64 bodies wait")

    monkeypatch.setattr(bare.service, "receive", full)

    assert 503 == bare.request("POST", WRITE, content=BODY, headers=PROTO).status_code


@pytest.mark.parametrize(
    ("headers", "content", "status"),
    [
        pytest.param({"Content-Type": "text/plain"}, b"{}", 415, id="another type"),
        pytest.param({"Content-Type": "application/json", "Content-Encoding": "br"}, b"[]", 415, id="brotli"),
        pytest.param({"Content-Type": "application/json", "Content-Encoding": "gzip"}, b"[]", 400, id="not gzip"),
        pytest.param({"Content-Type": "application/x-ndjson"}, b"{}\n{}\n", 204, id="lines"),
        pytest.param(
            {"Content-Type": "application/json", "Content-Encoding": "gzip"}, gzip.compress(b"[]"), 204, id="gzip"
        ),
    ],
)
def test_types_of_events(
    bare: Api, monkeypatch: pytest.MonkeyPatch, headers: dict[str, str], content: bytes, status: int
) -> None:
    """NDJSON or a list, plain or gzip."""
    answering(bare, monkeypatch, Received(0, Rejects()))

    assert status == bare.request("POST", EVENTS, content=content, headers=headers).status_code


def test_questions_do_not_hold_up_samples(bare: Api, monkeypatch: pytest.MonkeyPatch) -> None:
    """Every thread that answers questions is busy; a write and a probe are answered all the same."""
    release = threading.Event()
    reader = bare.service.reader

    def slow() -> AbstractContextManager[Store]:
        release.wait()
        return reader()

    monkeypatch.setattr(bare.service, "reader", slow)

    async def main() -> tuple[list[int], list[int]]:
        transport = httpx.ASGITransport(bare.app, raise_app_exceptions=False)
        async with httpx.AsyncClient(transport=transport, base_url="http://localhost") as client:
            asked = [asyncio.create_task(client.get("/api/v1/fleet")) for _ in range(60)]
            try:
                write = await client.post(WRITE, content=BODY, headers=PROTO)
                probe = await client.get("/readyz")
                waiting = sum(not task.done() for task in asked)
            finally:
                release.set()
            answers = await asyncio.gather(*asked)
        return [write.status_code, probe.status_code, waiting], [answer.status_code for answer in answers]

    assert ([204, 200, 60], [200] * 60) == asyncio.run(main())


def test_a_body_takes_its_share_of_memory_until_it_is_decoded(bare: Api, monkeypatch: pytest.MonkeyPatch) -> None:
    """Its sender was asked to come back, but what it sent is still in memory."""
    asked: list[Callable[[], None]] = []

    def receive(*_: object, decoded: Callable[[], None]) -> Future[Received]:
        asked.append(decoded)
        return Future()

    monkeypatch.setattr(bare.service, "receive", receive)
    monkeypatch.setattr("gpuwatch.api.routes.sources.ingest.ACK_SECONDS_MAX", 0.01)
    turns = bare.app.state.decoding

    async def main() -> tuple[int, int, int]:
        transport = httpx.ASGITransport(bare.app, raise_app_exceptions=False)
        async with httpx.AsyncClient(transport=transport, base_url="http://localhost") as client:
            headers = {"Content-Type": "application/json"}
            answer = await client.post(EVENTS, content=b"[{}]", headers=headers)
            waiting = DECODED_MAX - turns.free
            asked[0]()
            while turns.free < DECODED_MAX:
                await asyncio.sleep(0)
        return answer.status_code, waiting, DECODED_MAX - turns.free

    assert (503, WEIGHT_MIN, 0) == asyncio.run(asyncio.wait_for(main(), PATIENCE_S))
