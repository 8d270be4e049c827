"""History by query: answers to arrays, refusals to smaller or later questions, spans to batches."""

from __future__ import annotations

import json
import math
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any
from urllib.parse import parse_qs, urlsplit

import pytest

from gpuwatch.collectors.prometheus.chunking import QueryRunner, parse_matchers
from gpuwatch.collectors.prometheus.http import Access, Client, base_url
from gpuwatch.collectors.prometheus.metrics import History
from gpuwatch.collectors.prometheus.refusals import LARGE, LATER, NEVER, Refused, refusal
from gpuwatch.collectors.prometheus.response import parse_matrix
from gpuwatch.collectors.shared.credentials import Credentials, Secret
from gpuwatch.core.errors import UnreadableInput
from gpuwatch.core.model import Points

POWER, ACTIVE = "DCGM_FI_DEV_POWER_USAGE", "DCGM_FI_PROF_SM_ACTIVE"
S = 1_000_000
T0 = 1_793_577_600


def answer(*series: tuple[dict[str, str], list[tuple[float, str]]], **more: Any) -> bytes:
    """A matrix answer as servers write it."""
    result = [{"metric": labels, "values": [list(pair) for pair in pairs]} for labels, pairs in series]
    body = {"status": "success", "data": {"resultType": "matrix", "result": result}} | more
    return json.dumps(body, separators=(",", ":")).encode()


def gpu(name: str = POWER, uuid: str = "GPU-a", **labels: str) -> dict[str, str]:
    """The labels of a metric of a GPU."""
    return {"__name__": name, "UUID": uuid, "gpu": "0", "Hostname": "n1"} | labels


@pytest.mark.parametrize(
    ("body", "expected"),
    [
        pytest.param(answer(), [], id="no series"),
        pytest.param(answer((gpu(), [(T0, "1")])), [(T0 * S, 1.0)], id="one sample on a whole second"),
        pytest.param(
            answer((gpu(), [(T0 + 0.123, "0.5"), (T0 + 15.001, "1e3")])),
            [(T0 * S + 123_000, 0.5), (T0 * S + 15_001_000, 1000.0)],
            id="milliseconds are exact",
        ),
        pytest.param(
            answer((gpu(pod='x"values":[[1,"2"]],{"metric":'), [(T0, "1")]), (gpu(), [(T0, "2")])),
            [(T0 * S, 1.0), (T0 * S, 2.0)],
            id="a label that looks like an answer is a label",
        ),
        pytest.param(
            json.dumps(json.loads(answer((gpu(), [(T0, "7")])))).encode(), [(T0 * S, 7.0)], id="spaces are allowed"
        ),
        pytest.param(
            answer((gpu(), [(T0, "NaN"), (T0 + 1, "+Inf"), (T0 + 2, "-Inf"), (T0 + 3, "4")])),
            [(T0 * S, None), (T0 * S + S, None), (T0 * S + 2 * S, None), (T0 * S + 3 * S, 4.0)],
            id="what is no number is a gap",
        ),
    ],
)
def test_samples_of_an_answer(body: bytes, expected: list[tuple[int, float | None]]) -> None:
    found = parse_matrix(body)
    values = [None if math.isnan(value) else value for value in found.value.tolist()]

    assert expected == list(zip(found.time_us.tolist(), values, strict=True))
    assert len(found.keys) == len(found.counts)
    assert sum(found.counts.tolist()) == len(expected)


@pytest.mark.parametrize(
    "body",
    [
        pytest.param(b"<html>", id="a page"),
        pytest.param(b"{}", id="other JSON"),
        pytest.param(answer((gpu(), [(T0, "1")]))[:-3], id="a torn answer"),
        pytest.param(answer((gpu(), [(T0, "1"), (T0 + 1, "2")])).replace(b"]]", b"]", 1), id="a torn list"),
        pytest.param(b'{"status":"success","data":{"resultType":"vector","result":[]}}', id="a vector"),
        pytest.param(
            b'{"status":"success","data":{"resultType":"matrix","result":[{"values":[[1,"2"]]}]}}', id="no labels"
        ),
    ],
)
def test_a_body_that_is_no_answer_is_refused(body: bytes) -> None:
    with pytest.raises(UnreadableInput):
        parse_matrix(body)


@pytest.mark.parametrize(
    ("more", "expected"),
    [
        pytest.param({}, [], id="a whole answer"),
        pytest.param({"warnings": ["store s1 is down"]}, ["store s1 is down"], id="Thanos without one of its stores"),
        pytest.param({"isPartial": True}, ["the server reports a partial answer"], id="a VictoriaMetrics cluster"),
    ],
)
def test_what_an_answer_lacks(more: dict[str, Any], expected: list[str]) -> None:
    assert expected == parse_matrix(answer((gpu(), [(T0, "1")]), **more)).warnings


@pytest.mark.parametrize(
    ("status", "text", "helps"),
    [
        pytest.param(401, "no", NEVER, id="credentials"),
        pytest.param(404, "no", NEVER, id="another path"),
        pytest.param(400, "parse error", NEVER, id="a wrong selector"),
        pytest.param(302, "", NEVER, id="a login page"),
        pytest.param(429, "too many outstanding requests", LATER, id="a pause that is asked for"),
        pytest.param(503, "Service Unavailable", LATER, id="a server that starts"),
        pytest.param(502, "", LATER, id="a proxy without its server"),
        pytest.param(503, "query timed out in expression evaluation", LARGE, id="Prometheus out of time"),
        pytest.param(422, "query processing would load too many samples into memory", LARGE, id="Prometheus' samples"),
        pytest.param(
            422, "cannot select more than -search.maxSamplesPerQuery=1000 samples", LARGE, id="VictoriaMetrics'"
        ),
        pytest.param(
            422, "the query exceeded the maximum number of chunks (err-mimir-max-chunks-per-query)", LARGE, id="Mimir's"
        ),
        pytest.param(500, "exceeded series limit: limit 10 violated", LARGE, id="Thanos'"),
        pytest.param(413, "", LARGE, id="a proxy's"),
        pytest.param(504, "", LARGE, id="a proxy out of time"),
    ],
)
def test_what_helps_after_a_refusal(status: int, text: str, helps: str) -> None:
    for body in (text.encode(), json.dumps({"status": "error", "errorType": "x", "error": text}).encode()):
        found = refusal("http://p:9090", status, body, "7")

        assert helps == found.remedy
        assert (7.0 if helps == LATER else None) == found.retry_after_s
        assert str(found).startswith(f"http://p:9090 answered {status}")


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        pytest.param("", "", id="none"),
        pytest.param('{cluster="a",job=~"x|y"}', 'cluster="a",job=~"x|y"', id="with braces"),
        pytest.param(r'pod!="a\"b"', r'pod!="a\"b"', id="with a quote in it"),
    ],
)
def test_matchers(text: str, expected: str) -> None:
    assert expected == parse_matchers(text)


@pytest.mark.parametrize("text", ["up", 'a="b"} or {c="d"', "a=b", '{__name__="x"}', 'up{a="b"}', 'a="b\n"'])
def test_other_selectors_are_refused(text: str) -> None:
    with pytest.raises(ValueError, match="selector|metrics"):
        parse_matchers(text)


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        pytest.param("http://p:9090/", "http://p:9090", id="a slash at the end"),
        pytest.param("https://m/prometheus", "https://m/prometheus", id="the path of Mimir"),
        pytest.param("http://p/x/api/v1/query", "http://p/x", id="the address of a query"),
    ],
)
def test_addresses(text: str, expected: str) -> None:
    assert expected == base_url(text)


@pytest.mark.parametrize("text", ["p:9090", "ftp://p", "http://", "http://u:pw@p", "http://p/?a=b", "http://p:x"])
def test_other_addresses_are_refused_without_their_secrets(text: str) -> None:
    with pytest.raises(ValueError) as caught:
        base_url(text)

    assert "pw" not in str(caught.value)


# A server of our own, for what real ones do not do on demand -----------------------------------------------------

Answer = tuple[int, dict[str, str], bytes]


class Server(ThreadingHTTPServer):
    """Answers each query as `reply` says; notes what it was asked."""

    def __init__(self, reply: Callable[[str, dict[str, str]], Answer]) -> None:
        super().__init__(("127.0.0.1", 0), _Handler)
        self.reply = reply
        self.asked: list[tuple[str, dict[str, str]]] = []
        self.headers: list[dict[str, str]] = []
        self.connections = 0

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.server_address[1]}"


class _Handler(BaseHTTPRequestHandler):
    server: Server
    protocol_version = "HTTP/1.1"
    disable_nagle_algorithm = True

    def setup(self) -> None:
        self.server.connections += 1
        super().setup()

    def do_GET(self) -> None:
        parts = urlsplit(self.path)
        query = {name: values[0] for name, values in parse_qs(parts.query).items()}
        self.server.asked.append((parts.path, query))
        self.server.headers.append(dict(self.headers))
        status, headers, body = self.server.reply(parts.path, query)
        self.send_response(status)
        for name, value in headers.items():
            self.send_header(name, value)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, format: str, *args: Any) -> None:
        """Says nothing."""


@contextmanager
def serving(reply: Callable[[str, dict[str, str]], Answer]) -> Iterator[Server]:
    """A server until the end of the block."""
    server = Server(reply)
    thread = threading.Thread(target=server.serve_forever, args=(0.01,), daemon=True)
    thread.start()
    try:
        yield server
    finally:
        server.shutdown()
        server.server_close()
        thread.join()


def names_and(reply: Callable[[dict[str, str]], Answer]) -> Callable[[str, dict[str, str]], Answer]:
    """A server with two metrics, whose queries `reply` answers."""

    def both(path: str, query: dict[str, str]) -> Answer:
        if path.endswith("/values"):
            return 200, {}, json.dumps({"status": "success", "data": [POWER, ACTIVE, "DCGM_FI_OTHER", "up"]}).encode()
        return reply(query)

    return both


def opened(server: Server, **options: Any) -> History:
    """The history of a server, its metrics found."""
    asker = QueryRunner(Client(Access(server.url, **options)))
    history = History(asker, "c1")
    assert ["DCGM_FI_DEV_POWER_USAGE", "DCGM_FI_OTHER", "DCGM_FI_PROF_SM_ACTIVE"] == history.find(T0 * S, (T0 + 60) * S)
    return history


def readings(history: History, seconds: int = 60) -> list[tuple[str, int, float]]:
    """(column, seconds, value) of a minute."""
    chunk = history.chunk(T0 * S, (T0 + seconds) * S)
    found = []
    for batch in chunk.batches:
        if isinstance(batch, Points):
            fields = batch.series["field"].to_pylist()
            found += [(fields[r["series"]], r["observed_us"] // S - T0, r["value"]) for r in batch.rows.to_pylist()]
    return sorted(found)


def test_a_span_takes_what_lies_in_it() -> None:
    pairs = [(T0 - 0.001, "1"), (T0, "2"), (T0 + 30, "NaN"), (T0 + 59.999, "3"), (T0 + 60, "4")]
    with serving(names_and(lambda query: (200, {}, answer((gpu(), pairs), (gpu(ACTIVE), [(T0, "0.5")]))))) as server:
        found = readings(opened(server))

    assert [("power_watts", 0, 2.0), ("power_watts", 59, 3.0), ("sm_active_ratio", 0, 0.5)] == found
    path, query = server.asked[-1]
    assert "/api/v1/query" == path
    assert (f'{{__name__=~"{POWER}|{ACTIVE}"}}[61s]', str(T0 + 60)) == (query["query"], query["time"])


def test_what_names_no_device_is_counted() -> None:
    series = ({"__name__": POWER, "job": "x"}, [(T0, "1"), (T0 + 1, "2")])
    with serving(names_and(lambda query: (200, {}, answer(series)))) as server:
        chunk = opened(server).chunk(T0 * S, (T0 + 60) * S)

    assert {"no device label": 2} == chunk.rejects.counts
    assert [] == chunk.batches


def test_too_much_is_asked_for_in_parts_and_nothing_twice() -> None:
    """A server that answers one metric of at most ten seconds."""

    def reply(query: dict[str, str]) -> Answer:
        text, at = query["query"], int(query["time"])
        seconds = int(text.rpartition("[")[2][:-2])
        if "|" in text or seconds > 11:
            return 422, {}, b'{"status":"error","errorType":"execution","error":"query would load too many samples"}'
        name = POWER if POWER in text else ACTIVE
        return 200, {}, answer((gpu(name), [(t, "0.5") for t in range(at - seconds, at + 1)]))

    with serving(names_and(reply)) as server:
        found = readings(opened(server))

    assert sorted((f, at, 0.5) for f in ("power_watts", "sm_active_ratio") for at in range(60)) == found


def test_a_server_that_refuses_the_least_is_an_error() -> None:
    with serving(names_and(lambda query: (422, {}, b'{"status":"error","error":"too many samples"}'))) as server:
        history = opened(server)
        with pytest.raises(Refused, match="too many samples") as caught:
            history.chunk(T0 * S, (T0 + 60) * S)

    assert LARGE == caught.value.remedy
    assert len(server.asked) < 40


def test_a_pause_that_is_asked_for_is_kept_and_named(caplog: pytest.LogCaptureFixture) -> None:
    """Who waits for an answer sees why."""
    waited: list[float] = []

    class Stop(threading.Event):
        def wait(self, timeout: float | None = None) -> bool:
            waited.append(timeout or 0.0)
            return False

    replies = iter([(429, {"Retry-After": "3"}, b""), (503, {"Retry-After": "5"}, b"")])
    with serving(names_and(lambda query: next(replies, (200, {}, answer((gpu(), [(T0, "1")])))))) as server:
        asker = QueryRunner(Client(Access(server.url)), stop=Stop())
        history = History(asker, "c1")
        history.find(T0 * S, (T0 + 60) * S)
        found = readings(history)

    assert [("power_watts", 0, 1.0)] == found
    assert [True, True] == [3 <= waited[0] < 60, 5 <= waited[1] < 60]
    assert ["answered 429", "answered 503"] == [text[text.index("answered") :][:12] for text in caplog.messages]
    assert "trying again in " in caplog.messages[0] and "(1 of 7)" in caplog.messages[0]


def test_an_answer_beyond_the_bound_is_not_read_to_its_end() -> None:
    body = answer((gpu(), [(T0 + second, "1") for second in range(50_000)]))
    with (
        serving(names_and(lambda query: (200, {}, body))) as server,
        pytest.raises(Refused, match="more than 10,000 bytes"),
    ):
        opened(server, max_bytes=10_000).chunk(T0 * S, (T0 + 1) * S)


def test_credentials_go_with_every_query_and_into_no_message(tmp_path: Path) -> None:
    token = tmp_path / "token"
    token.write_text("first-secret\n")

    def reply(path: str, query: dict[str, str]) -> Answer:
        return 403, {}, b"forbidden"

    with serving(reply) as server:
        history = History(
            QueryRunner(
                Client(Access(server.url, credentials=Credentials(bearer_token=Secret(file=str(token))), tenant="t1"))
            ),
            "c1",
        )
        messages = []
        for text in ("first-secret", "second-secret!"):
            token.write_text(text)
            with pytest.raises(Refused) as caught:
                history.find(T0 * S, (T0 + 60) * S)
            messages.append(str(caught.value) + repr(caught.value))

    assert ["Bearer first-secret", "Bearer second-secret!"] == [own["Authorization"] for own in server.headers]
    assert {"t1"} == {own["X-Scope-OrgID"] for own in server.headers}
    assert "secret" not in "".join(messages)


def test_a_redirect_is_not_followed() -> None:
    """The credentials would go elsewhere."""
    with serving(lambda path, query: (302, {"Location": "http://127.0.0.1:1/"}, b"")) as server:
        history = History(QueryRunner(Client(Access(server.url))), "c1")
        with pytest.raises(Refused, match="redirects"):
            history.find(T0 * S, (T0 + 60) * S)

    assert 1 == len(server.asked)


def test_threads_that_come_and_go_share_a_connection() -> None:
    with serving(lambda path, query: (200, {}, answer((gpu(), [(T0, "1")])))) as server:
        client = Client(Access(server.url))
        for _ in range(10):
            thread = threading.Thread(target=client.matrix, args=("up[1m]", T0))
            thread.start()
            thread.join()
        client.close()

    assert (10, 1) == (len(server.asked), server.connections)


def test_with_only_new_a_sample_comes_once_also_a_late_one() -> None:
    listed = [(T0, "1"), (T0 + 30, "3"), (T0 + 31, "x")]
    with serving(
        names_and(lambda query: (200, {}, answer((gpu(), listed), (gpu(uuid="", Hostname=""), listed))))
    ) as server:
        history = opened(server)
        first = history.chunk(T0 * S, (T0 + 60) * S, only_new=True)
        again = history.chunk(T0 * S, (T0 + 60) * S, only_new=True)
        history.remember(first, T0 * S)
        listed.insert(1, (T0 + 15, "2"))
        late = history.chunk(T0 * S, (T0 + 60) * S, only_new=True)
        history.remember(late, (T0 + 20) * S)
        last = history.chunk(T0 * S, (T0 + 60) * S, only_new=True)

    assert (2, 2) == (first.samples, again.samples)  # what is not on disk comes again
    assert [2.0] == [
        value for batch in late.batches if isinstance(batch, Points) for value in batch.rows["value"].to_pylist()
    ]
    assert (2, 1) == (first.rejects.total, late.rejects.total)
    assert 2 == last.samples  # of before T0 + 20: forgotten


def test_an_answer_that_never_ends_is_given_up() -> None:
    class Dripping(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            self.send_response(200)
            self.end_headers()
            with suppress(OSError):
                while True:
                    self.wfile.write(b" ")
                    time.sleep(0.01)

        def log_message(self, format: str, *args: Any) -> None:
            """Says nothing."""

    server = ThreadingHTTPServer(("127.0.0.1", 0), Dripping)
    threading.Thread(target=server.serve_forever, args=(0.01,), daemon=True).start()
    client = Client(Access(f"http://127.0.0.1:{server.server_address[1]}", timeout_s=0.3))
    try:
        with pytest.raises(Refused, match="did not end its answer within 0.9 s"):
            client.matrix("up[1m]", T0)
    finally:
        client.close()
        server.shutdown()
        server.server_close()


@pytest.mark.parametrize(
    "body",
    [
        pytest.param(b"<html>log in</html>", id="a login page"),
        pytest.param(b"[" * 100_000, id="lists in lists"),
        pytest.param(b'{"status":"success","data":{"resultType":"vector","result":[1]}}', id="a number for a series"),
        pytest.param(
            b'{"status":"success","data":{"resultType":"vector","result":[{"metric":{"a":1},"value":[1,"2"]}]}}',
            id="a label that is no text",
        ),
    ],
)
def test_what_is_no_answer_of_the_api_is_reported(body: bytes) -> None:
    with serving(lambda path, query: (200, {}, body)) as server:
        client = Client(Access(server.url))
        with pytest.raises(UnreadableInput, match="Prometheus API"):
            client.vector("up", T0)
        client.close()
