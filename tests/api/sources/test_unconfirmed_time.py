"""Pushed data that only the server's own clock refuses: its sender is asked to keep it."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator

import httpx
import pytest

from bench.remote_write import body
from gpuwatch.core.clock import HOUR_US, rfc3339
from tests.e2e.process import PROTOBUF, gpu_labels, snappy
from tests.worlds.api import NOW_US, Api, open_api

WRITE, EVENTS, OTLP = "/api/v1/write", "/api/v1/events", "/api/v1/otlp/v1/metrics"


@pytest.fixture
def fresh() -> Iterator[Api]:
    """A service that has seen no other clock."""
    api = open_api(None)
    yield api
    api.service.stop()


def written(api: Api, at_us: int) -> httpx.Response:
    content = snappy(body([(gpu_labels("GPU-a"), [(0.5, at_us // 1000)])]))
    return api.request("POST", WRITE, content=content, headers=PROTOBUF)


def event(api: Api, at_us: int) -> httpx.Response:
    record = {"id": "1", "type": "claim", "scheduler": "slurm", "job_id": "7", "node": "n1", "device_count": 1}
    content = json.dumps([record | {"start": rfc3339(at_us)}]).encode()
    return api.request("POST", EVENTS, content=content, headers={"Content-Type": "application/json"})


def measured(api: Api, at_us: int) -> httpx.Response:
    attributes = [{"key": key, "value": {"stringValue": value}} for key, value in gpu_labels("GPU-a").items()]
    points = [{"asDouble": 0.5, "timeUnixNano": str(at_us * 1000), "attributes": attributes}]
    metric = {"name": "DCGM_FI_PROF_SM_ACTIVE", "gauge": {"dataPoints": points}}
    content = json.dumps({"resourceMetrics": [{"scopeMetrics": [{"metrics": [metric]}]}]}).encode()
    return api.request("POST", OTLP, content=content, headers={"Content-Type": "application/json"})


SENDERS = [
    pytest.param(written, id="remote-write"),
    pytest.param(event, id="events"),
    pytest.param(measured, id="OTLP"),
]
Push = Callable[[Api, int], httpx.Response]


@pytest.mark.parametrize("push", SENDERS)
def test_what_a_slow_server_refuses_is_sent_again_and_stored(fresh: Api, push: Push) -> None:
    refused = push(fresh, NOW_US + 2 * HOUR_US)

    assert (503, True) == (refused.status_code, int(refused.headers["retry-after"]) > 0)
    assert "nothing of this body was stored" in refused.text

    fresh.moment[0] += 2 * HOUR_US  # the clock is set

    assert push(fresh, NOW_US + 2 * HOUR_US).status_code in (200, 204)


@pytest.mark.parametrize("push", SENDERS)
def test_what_is_wrong_by_a_confirmed_clock_is_refused_for_good(fresh: Api, push: Push) -> None:
    assert 204 == written(fresh, NOW_US).status_code
    refused = push(fresh, NOW_US + 2 * HOUR_US)

    assert refused.status_code in (200, 204)
    assert "1" in (refused.headers.get("x-gpuwatch-rejected"), refused.text[-200:].partition('Points": "')[2][:1])
