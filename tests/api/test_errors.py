"""One error shape: {"error": {"code", "message", "hint", "field"?}}, whatever goes wrong; one time format: RFC 3339 UTC."""

from __future__ import annotations

import pytest

from gpuwatch.core.errors import StoreBusy, StoreError
from gpuwatch.store.connection import OutOfMemory
from tests.worlds.api import NOW_US, Api

W = "/api/v1/write"


@pytest.mark.parametrize(
    ("method", "path", "more", "status", "code", "field"),
    [
        pytest.param("GET", "/api/v1/nothing", {}, 404, "not_found", None, id="no such route"),
        pytest.param("GET", "/nothing", {}, 404, "not_found", None, id="no such path outside the API"),
        pytest.param("DELETE", "/api/v1/rates", {}, 405, "method_not_allowed", None, id="a method it does not take"),
        pytest.param("GET", "/api/v1/findings/x-1", {}, 404, "not_found", "key", id="no such finding"),
        pytest.param("GET", "/api/v1/jobs/4711", {}, 404, "not_found", "job_id", id="no such job"),
        pytest.param("GET", "/api/v1/jobs?limit=0", {}, 400, "bad_request", "limit", id="limit below one"),
        pytest.param("GET", "/api/v1/jobs?limit=1001", {}, 400, "bad_request", "limit", id="limit above its bound"),
        pytest.param("GET", "/api/v1/jobs?windw=7d", {}, 400, "bad_request", "windw", id="a misspelt parameter"),
        pytest.param("GET", "/api/v1/jobs?q=a&q=b", {}, 400, "bad_request", "q", id="a parameter twice"),
        pytest.param("GET", "/api/v1/jobs?window=soon", {}, 400, "bad_request", "window", id="no window"),
        pytest.param("GET", "/api/v1/jobs?window=9999-12", {}, 400, "bad_request", "window", id="a window past all dates"),
        pytest.param("GET", "/api/v1/ledger?by=colour", {}, 400, "bad_request", "by", id="no such dimension"),
        pytest.param("GET", "/api/v1/findings?severity=odd", {}, 400, "bad_request", "severity", id="no such severity"),
        pytest.param("GET", "/api/v1/findings?cursor=AAAA", {}, 400, "bad_request", "cursor", id="findings: bad cursor"),
        pytest.param("GET", "/api/v1/jobs?cursor=AAAA", {}, 400, "bad_request", "cursor", id="jobs: bad cursor"),
        pytest.param("GET", "/api/v1/ledger?cursor=W10", {}, 400, "bad_request", "cursor", id="ledger: bad cursor"),
        pytest.param("GET", "/api/v1/rates?cursor=bnVsbA", {}, 400, "bad_request", "cursor", id="rates: bad cursor"),
        pytest.param("POST", W, {"content": b"x"}, 415, "unsupported_media_type", None, id="write without a content type"),
        pytest.param("PUT", "/api/v1/rates", {"content": b"x"}, 415, "unsupported_media_type", None, id="rates of no type"),
        pytest.param("PUT", "/api/v1/rates", {"json": []}, 400, "bad_request", None, id="a body that is no object"),
        pytest.param("PUT", "/api/v1/rates", {"json": {"items": [{}]}}, 400, "bad_request", "items.0.gpu_model", id="row"),
        pytest.param("PUT", "/api/v1/channels", {"content": b'{"items":' + b"[" * 90_000, "headers": {"Content-Type": "application/json"}}, 400, "bad_request", None, id="a body nested without end"),
        pytest.param("POST", "/api/v1/periods", {"json": {"period": "x"}}, 400, "bad_request", "period", id="no period"),
    ],
)  # fmt: skip
def test_an_error_has_the_shape(
    bare: Api, method: str, path: str, more: dict[str, object], status: int, code: str, field: str | None
) -> None:
    """Status, code and field say which; message and hint say what to do."""
    answer = bare.request(method, path, **more)

    assert (status, code, field) == (
        answer.status_code,
        answer.json()["error"]["code"],
        answer.json()["error"].get("field"),
    )
    assert {"code", "message", "hint", *({"field"} if field else set())} == set(answer.json()["error"])
    assert ["error"] == list(answer.json())


def test_a_wrong_method_is_answered_with_the_right_ones(bare: Api) -> None:
    """Of all routes of that path."""
    assert "GET, HEAD, PUT" == bare.request("POST", "/api/v1/rates").headers["allow"]


@pytest.mark.parametrize(
    ("error", "status", "code"),
    [
        pytest.param(StoreBusy("queue is full"), 503, "busy", id="a full queue asks to come back"),
        pytest.param(StoreError("disk is full"), 503, "unavailable", id="a full disk asks to come back"),
        pytest.param(MemoryError(), 503, "unavailable", id="no memory"),
        pytest.param(OutOfMemory("Out of Memory Error: /x"), 503, "unavailable", id="no memory for a query"),
        pytest.param(RuntimeError("can't start new thread"), 503, "unavailable", id="no thread"),
        pytest.param(OSError(24, "Too many open files", "/x"), 503, "unavailable", id="no file"),
        pytest.param(OSError(5, "Input/output error", "/x"), 500, "internal", id="another error of the system"),
        pytest.param(RuntimeError("secret path /x"), 500, "internal", id="a fault of ours tells nothing"),
    ],
)
def test_what_breaks_inside(
    bare: Api, monkeypatch: pytest.MonkeyPatch, error: Exception, status: int, code: str
) -> None:
    """Never a traceback; Retry-After where coming back helps."""

    def broken() -> None:
        raise error

    monkeypatch.setattr(bare.service, "reader", broken)
    answer = bare.get("/api/v1/fleet")

    assert (status, code) == (answer.status_code, answer.json()["error"]["code"])
    assert (status == 503) == ("retry-after" in answer.headers)
    assert "Traceback" not in answer.text and "/x" not in answer.text


@pytest.mark.parametrize("path", ["/healthz", "/api/v1/me", "/api/v1/nothing", "/docs", "/ui/x"])
def test_every_answer_has_its_security_headers(bare: Api, path: str) -> None:
    """Also those that are errors."""
    headers = bare.get(path).headers

    assert ("nosniff", "DENY", "no-referrer") == (
        headers["x-content-type-options"],
        headers["x-frame-options"],
        headers["referrer-policy"],
    )
    assert "frame-ancestors 'none'" in headers["content-security-policy"]
    assert "access-control-allow-origin" not in headers


def test_answers_are_not_kept_by_caches(bare: Api) -> None:
    """What one token saw is for that token."""
    assert "no-store" == bare.get("/api/v1/me").headers["cache-control"]


def test_head_has_the_headers_alone(bare: Api) -> None:
    """Probes use it."""
    answer = bare.request("HEAD", "/healthz")

    assert (200, b"") == (answer.status_code, answer.content)


def test_the_front_door_leads_to_the_pages(bare: Api) -> None:
    """GET / opens the UI."""
    answer = bare.get("/")

    assert (307, "/ui/") == (answer.status_code, answer.headers["location"])


def test_a_service_that_cannot_work_is_not_ready(bare: Api, monkeypatch: pytest.MonkeyPatch) -> None:
    """503 with the reasons; a stranger learns only that it is so. It lives all the same."""
    monkeypatch.setattr(bare.service, "problems", lambda: ["cannot write to /data: disk full"])
    near, far = bare.get("/readyz"), bare.get("/readyz", peer="192.0.2.1")

    assert (503, "unready", ["cannot write to /data: disk full"]) == (
        near.status_code, near.json()["status"], near.json()["reasons"]
    )  # fmt: skip
    assert (503, False, 200) == (far.status_code, "/data" in far.text, bare.get("/healthz").status_code)


def test_failing_sources_do_not_make_it_unready(api: Api) -> None:
    """They are told, by state."""
    sources = api.service._sources
    sources.add("never", "dcgm", "c1", 30.0)
    sources.succeeded("late", NOW_US - 3600 * 1_000_000, 1)
    sources.failed("failing", NOW_US, "refused")
    answer = api.get("/readyz")
    counts = answer.json()["sources"]

    assert (200, 0, 1, 1, 1) == (answer.status_code, *(counts[name] for name in ("ok", "late", "failing", "never")))
    assert {"failing": "refused"} == {row["source"]: row["error"] for row in counts["items"] if row["error"]}
