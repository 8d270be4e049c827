"""POST /otlp/v1/metrics: what an OpenTelemetry collector is told, in the encoding it asked in."""

from __future__ import annotations

import gzip
import json
from collections.abc import Callable
from concurrent.futures import Future
from pathlib import Path
from typing import Any

import pytest

from bench.otlp import metric, point, request
from gpuwatch.api.errors import BUSY_RETRY_S, STORE_RETRY_S
from gpuwatch.core.errors import StoreBusy, StoreError, UnreadableInput
from gpuwatch.core.model import Rejects
from gpuwatch.service.pushed import Received
from tests.worlds.api import NOW_US, Api

ROUTE = "/api/v1/otlp/v1/metrics"
PROTOBUF, JSON = {"Content-Type": "application/x-protobuf"}, {"Content-Type": "application/json"}
GPU = {"UUID": "GPU-a", "gpu": "0", "Hostname": "n1"}


def body(*values: float) -> bytes:
    """A gauge with a data point each second."""
    points = [point(GPU, NOW_US - 1_000_000 * k, value) for k, value in enumerate(values)]
    return request([({"service.instance.id": "n1:9400"}, [metric("DCGM_FI_PROF_SM_ACTIVE", points)])])


def answering(api: Api, monkeypatch: pytest.MonkeyPatch, outcome: Received | Exception) -> None:
    """Makes the decoder answer so."""

    def receive(*_: object, decoded: Callable[[], None]) -> Future[Received]:
        decoded()
        done: Future[Received] = Future()
        if isinstance(outcome, Exception):
            done.set_exception(outcome)
        else:
            done.set_result(outcome)
        return done

    monkeypatch.setattr(api.service, "receive", receive)


def test_data_points_are_on_disk_when_the_collector_is_answered(api: Api) -> None:
    plain = api.request("POST", ROUTE, content=body(0.5), headers=PROTOBUF)
    packed = api.request(
        "POST",
        f"{ROUTE}?cluster=c7",
        content=gzip.compress(body(0.25)),
        headers={**PROTOBUF, "Content-Encoding": "gzip"},
    )

    assert [(200, b"", "application/x-protobuf")] * 2 == [
        (a.status_code, a.content, a.headers["content-type"]) for a in (plain, packed)
    ]
    assert [("c7", 0.25), ("default", 0.5)] == api.service.store.sql(
        "select cluster, sm_active_ratio from sample_tail join context using (context_id) order by 1"
    )
    assert {"otlp c7 (loopback)", "otlp default (loopback)"} == {source.name for source in api.service.sources()}


def test_json_is_answered_in_json(api: Api) -> None:
    at = {"timeUnixNano": str(NOW_US * 1000), "asDouble": 0.5}
    attributes = [{"key": "UUID", "value": {"stringValue": "GPU-a"}}]
    numbers = {"name": "DCGM_FI_PROF_SM_ACTIVE", "gauge": {"dataPoints": [{**at, "attributes": attributes}, at]}}
    content = {"resourceMetrics": [{"scopeMetrics": [{"metrics": [numbers]}]}]}
    answer = api.request("POST", ROUTE, content=json.dumps(content), headers=JSON)

    assert 200 == answer.status_code
    assert {"partialSuccess": {"rejectedDataPoints": "1", "errorMessage": "1 x no device label"}} == answer.json()
    assert [(0.5,)] == api.service.store.sql("select sm_active_ratio from sample_tail")


def test_refused_data_points_are_reported_and_the_good_ones_stored(api: Api) -> None:
    answer = api.request("POST", ROUTE, content=body(0.5, 7.0), headers=PROTOBUF)
    message = b"1 x out of range"

    assert 200 == answer.status_code
    inside = b"\x08\x01\x12" + bytes((len(message),)) + message
    assert b"\x0a" + bytes((len(inside),)) + inside == answer.content


def test_what_is_not_ours_is_no_failure(bare: Api, monkeypatch: pytest.MonkeyPatch) -> None:
    rejects = Rejects()
    rejects.add("ignored: not a DCGM metric", "otlp", 0, count=900)
    answering(bare, monkeypatch, Received(0, rejects))

    answer = bare.request("POST", ROUTE, content=b"", headers=PROTOBUF)

    assert (200, b"") == (answer.status_code, answer.content)


@pytest.mark.parametrize(
    ("error", "status", "code", "retry"),
    [
        pytest.param(StoreBusy("full"), 503, 14, str(BUSY_RETRY_S), id="a full queue"),
        pytest.param(StoreError("no space left"), 503, 14, str(STORE_RETRY_S), id="a full disk"),
        pytest.param(UnreadableInput("no protobuf"), 400, 3, None, id="a body that nobody can read"),
    ],
)
def test_a_failure_is_a_status(
    bare: Api, monkeypatch: pytest.MonkeyPatch, error: Exception, status: int, code: int, retry: str | None
) -> None:
    """google.rpc.Status: code and message."""
    answering(bare, monkeypatch, error)
    binary = bare.request("POST", ROUTE, content=b"", headers=PROTOBUF)
    text = bare.request("POST", ROUTE, content=b"{}", headers=JSON)
    message = str(error).encode()

    assert (status, retry, "application/x-protobuf") == (
        binary.status_code, binary.headers.get("retry-after"), binary.headers["content-type"]
    )  # fmt: skip
    assert b"\x08" + bytes((code,)) + b"\x12" + bytes((len(message),)) + message == binary.content
    found: dict[str, Any] = text.json()
    assert (status, retry, code, str(error)) == (
        text.status_code, text.headers.get("retry-after"), found["code"], found["message"]
    )  # fmt: skip
    assert {"code", "message", "hint"} <= found["error"].keys()


@pytest.mark.parametrize(
    ("headers", "content", "status"),
    [
        pytest.param({"Content-Type": "text/plain"}, b"", 415, id="another type"),
        pytest.param({**PROTOBUF, "Content-Encoding": "zstd"}, b"", 415, id="another encoding"),
        pytest.param({**PROTOBUF, "Content-Encoding": "gzip"}, b"no gzip", 400, id="not gzip"),
        pytest.param({**PROTOBUF, "Content-Encoding": "gzip"}, gzip.compress(bytes(33 << 20), 1), 413, id="a bomb"),
        pytest.param(PROTOBUF, b"\x0a\xff", 400, id="torn"),
        pytest.param(JSON, b"{", 400, id="torn JSON"),
        pytest.param({**PROTOBUF, "Content-Encoding": "identity"}, b"", 200, id="identity by name"),
    ],
)
def test_types_and_encodings(bare: Api, headers: dict[str, str], content: bytes, status: int) -> None:
    assert status == bare.request("POST", ROUTE, content=content, headers=headers).status_code


def test_only_a_sender_may_send(api: Api) -> None:
    reader, sender = api.token("read"), api.token("ingest")

    assert [403, 401, 200] == [
        api.request("POST", ROUTE, content=b"", headers=PROTOBUF, token=token).status_code
        for token in (reader, "wrong", sender)
    ]


def test_the_example_of_the_specification_is_taken(api: Api, shared: Path) -> None:
    content = (shared / "wire/prometheus/otlp_metrics.json").read_bytes()
    answer = api.request("POST", ROUTE, content=content, headers=JSON)

    assert (200, {}) == (answer.status_code, answer.json())
