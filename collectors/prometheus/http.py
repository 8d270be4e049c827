"""Queries to a server of the Prometheus API through prometheus-api-client, bounded in time and size.

The client reads whole answers and parses them with the stock JSON parser; a hook of its session reads them piece by
piece up to a bound, turns refusals into one error that says what helps, and hands matrices over as bytes
(see prometheus_wire).
"""

from __future__ import annotations

import io
import json
import math
import re
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any
from urllib.parse import urlsplit

from gpuwatch.collectors.shared.credentials import ANONYMOUS, Credentials
from gpuwatch.core.errors import SourceUnreachable, UnreadableInput

CONNECT_S = 10.0
DEFAULT_TIMEOUT_S = 120.0
"""Between two pieces of an answer: Prometheus gives up on a query after two minutes."""
WHOLE_FACTOR = 3
"""A whole answer may take that many timeouts."""
MAX_BYTES = 32 * 1024 * 1024
READ_BYTES = 1 << 20
MAX_ERROR_BYTES = 64 * 1024
MAX_ERROR_TEXT = 300
MAX_WAIT_S = 300.0
"""Of a Retry-After that is believed."""

LARGE, LATER, NEVER = "large", "later", "never"
"""What helps after a refusal: to ask for less, to ask later, nothing but a change of the settings."""
_LARGE_TEXT = re.compile(
    r"too many (?:samples|series|chunks|points|bytes|time ?series)|too large|exceed|limit|time-?out|timed out|deadline"
    r"|-search\.max(?:Samples|Unique|Export|Series|Memory)|larger than|cannot select more|not enough memory",
    re.IGNORECASE,
)
_SERIES_TEXT = re.compile(r"-search\.max|series|chunks", re.IGNORECASE)
_TIMEOUT_TEXT = re.compile(r"time-?out|timed out|deadline", re.IGNORECASE)
CHECK_PATH = "check the address: the path of Mimir ends in /prometheus, that of a VictoriaMetrics cluster in /select/0/prometheus"
_REASONS = (
    "connection refused",
    "name or service not known",
    "temporary failure in name resolution",
    "no route to host",
    "network is unreachable",
    "connection reset by peer",
    "remote end closed connection",
    "cannot connect to proxy",
)
_API_PATH = re.compile(r"/api/v1(?:/query(?:_range)?)?/*$|/+$")


class Refused(SourceUnreachable):
    """A query that was not answered. `helps` is LARGE, LATER or NEVER; `status` is 0 where no HTTP answer came."""

    @property
    def of_series(self) -> bool:
        """Whether it is about how many series were asked for: less time may not help, VictoriaMetrics counts whole
        blocks of hours of a series."""
        return self.helps == LARGE and _SERIES_TEXT.search(str(self)) is not None

    def __init__(self, text: str, helps: str, retry_after_s: float | None = None, status: int = 0) -> None:
        super().__init__(text)
        self.status = status
        self.helps = helps
        self.retry_after_s = retry_after_s


@dataclass(frozen=True)
class Access:
    """Where the API is and how to be let in. Secrets are in no repr."""

    url: str
    """Without trailing slash and without /api/v1."""
    credentials: Credentials = ANONYMOUS
    tenant: str = ""
    """X-Scope-OrgID of Mimir."""
    ca_file: str = ""
    cert_file: str = ""
    key_file: str = ""
    insecure: bool = False
    timeout_s: float = DEFAULT_TIMEOUT_S
    max_bytes: int = MAX_BYTES


class Client:
    """One server, asked from any number of threads: as many connections as ask at a time, used again and again."""

    def __init__(self, access: Access) -> None:
        self.access = access
        self._free: list[_Connection] = []
        self._closed = False
        self._lock = threading.Lock()

    def matrix(self, query: str, at_s: int) -> bytes:
        """The body of the answer to an instant query for a range of raw samples. Raises Refused."""
        # Without `nocache` VictoriaMetrics moves a query for the last half minute into the past.
        params = {"time": str(at_s), "nocache": "1"}
        answer: bytes = self._asked(lambda library: library.custom_query(query, params), as_bytes=True)
        return answer

    def vector(self, query: str, at_s: int) -> list[tuple[dict[str, str], float]]:
        """(labels, value) of an instant query, without what is no finite number. Raises Refused, UnreadableInput."""
        rows = self._asked(lambda library: library.custom_query(query, {"time": str(at_s), "nocache": "1"}))
        try:
            found = [(texts_of(row["metric"]), float(row["value"][1])) for row in rows]
        except (KeyError, TypeError, ValueError, IndexError):
            raise UnreadableInput(f"{self.access.url}: an answer is no vector of the Prometheus API") from None
        return [(labels, value) for labels, value in found if math.isfinite(value)]

    def names(self, match: str, start_s: int, end_s: int) -> list[str]:
        """Metric names of the series that match within a span of seconds. Raises Refused, UnreadableInput."""
        params = {"match[]": match, "start": str(start_s), "end": str(end_s)}
        found = self._asked(lambda library: library.get_label_values("__name__", params))
        if not isinstance(found, list) or not all(isinstance(name, str) for name in found):
            raise UnreadableInput(f"{self.access.url}: the answer is no list of metric names of the Prometheus API")
        return found

    def close(self) -> None:
        """Closes the connections; one that is in use then closes after its answer."""
        with self._lock:
            self._closed = True
            free, self._free = self._free, []
        for connection in free:
            connection.library.close()

    @contextmanager
    def _connection(self) -> Iterator[_Connection]:
        """A connection that nobody else uses meanwhile."""
        with self._lock:
            connection = self._free.pop() if self._free else None
        connection = connection or _connect(self.access)
        try:
            yield connection
        finally:
            with self._lock:
                closed = self._closed
                if not closed:
                    self._free.append(connection)
            if closed:
                connection.library.close()

    def _asked(self, ask: Callable[[Any], Any], as_bytes: bool = False) -> Any:
        """The answer of the library, with `as_bytes` the whole body, or Refused: its own errors repeat the whole query."""
        from requests import exceptions as failed
        from urllib3 import exceptions as broken

        url = self.access.url
        try:
            with self._connection() as connection:
                connection.hook.as_bytes = as_bytes
                return ask(connection.library)
        except (failed.Timeout, broken.TimeoutError):
            slow = (
                f"{url} did not answer within {self.access.timeout_s:g} s; raise the timeout, or ask for less at a time"
            )
            raise Refused(slow, LARGE) from None
        except failed.SSLError as error:
            raise Refused(f"{url}: {_tls(str(error))}", NEVER) from None
        except (KeyError, TypeError, ValueError, RecursionError):  # of JSON too
            raise UnreadableInput(f"{url}: the answer is not of the Prometheus API; {CHECK_PATH}") from None
        except broken.HTTPError:
            # VictoriaMetrics ends a connection when an answer that it has begun grows beyond a limit.
            raise Refused(f"{url} broke off its answer; see its log for a limit that was reached", LARGE) from None
        except OSError as error:  # the library's errors are of it too
            why = next((text for text in _REASONS if text.lower() in str(error).lower()), type(error).__name__)
            raise Refused(f"{url} cannot be reached: {why}; check that it runs, and the address", LATER) from None


def base_url(text: str) -> str:
    """The address to put before /api/v1. Raises ValueError that says what is wrong, without any secret in it."""
    try:
        parts = urlsplit(text.strip())
        named = parts.username is not None or parts.password is not None
        good = parts.scheme in ("http", "https") and bool(parts.hostname) and (parts.port or 1) > 0
    except ValueError:
        raise ValueError("is no address; write http(s)://host[:port][/path]") from None
    if named:
        raise ValueError("holds a name or password: give them apart, the password in a file")
    if not good or not text.strip().isprintable() or " " in text.strip():
        raise ValueError("is no address; write http(s)://host[:port][/path]")
    if parts.query or parts.fragment:
        raise ValueError("must end with its path, without ? and #")
    return f"{parts.scheme}://{parts.netloc}{_API_PATH.sub('', parts.path)}"


def texts_of(labels: Any) -> dict[str, str]:
    """A label set of an answer. Raises ValueError where it is none, or a label is no text."""
    if not isinstance(labels, dict) or not all(isinstance(value, str) for value in labels.values()):
        raise ValueError("labels are not text")
    return labels


@dataclass
class _Connection:
    """An object of the client library and what reads its answers."""

    library: Any
    hook: _Hook


def _connect(access: Access) -> _Connection:
    """A connection of the client library, which is loaded on first use."""
    import requests
    from prometheus_api_client import PrometheusConnect
    from urllib3.util.retry import Retry

    session = requests.Session()
    session.verify = False if access.insecure else access.ca_file or True
    if access.cert_file:
        session.cert = (access.cert_file, access.key_file) if access.key_file else access.cert_file
    session.max_redirects = 1
    session.trust_env = True
    hook = _Hook(access)
    session.hooks["response"] = [hook]
    library = PrometheusConnect(
        access.url,
        headers={"X-Scope-OrgID": access.tenant} if access.tenant else {},
        session=session,
        retry=Retry(0, read=False),  # what is tried again is decided by who asks
        auth=_Credentials(access),
        timeout=(CONNECT_S, access.timeout_s),
    )
    return _Connection(library, hook)


class _Credentials:
    """Puts a secret on each request as it is now; a name in ~/.netrc never replaces it."""

    def __init__(self, access: Access) -> None:
        self._access = access

    def __call__(self, request: Any) -> Any:
        try:
            request.headers.update(self._access.credentials.headers())
        except ValueError as error:
            raise Refused(f"{self._access.url}: {error}", NEVER) from None
        return request


@dataclass
class _Hook:
    """Reads an answer up to a bound, and raises Refused where it is none."""

    access: Access
    as_bytes: bool = field(default=False)

    def __call__(self, response: Any, **_: object) -> Any:
        good = response.status_code == 200
        try:
            body = self._read(response, self.access.max_bytes if good else MAX_ERROR_BYTES, cut=not good)
        except BaseException:
            response.close()
            raise
        if not good:
            response.close()
            raise refusal(self.access.url, response.status_code, body, response.headers.get("Retry-After"))
        response.raw = io.BytesIO(body)
        if self.as_bytes:
            response.raw = io.BytesIO()
            response.json = lambda **_: {"data": {"result": body}}
        return response

    def _read(self, response: Any, most: int, cut: bool) -> bytes:
        deadline = time.monotonic() + WHOLE_FACTOR * self.access.timeout_s
        pieces: list[bytes] = []
        size = 0
        # What has come so far: stream() would wait for all of READ_BYTES, however slowly they drip.
        while piece := response.raw.read1(READ_BYTES, decode_content=True):
            pieces.append(piece)
            size += len(piece)
            if size > most:
                if cut:
                    break
                raise Refused(f"{self.access.url} answered with more than {most:,} bytes", LARGE)
            if time.monotonic() > deadline:
                seconds = WHOLE_FACTOR * self.access.timeout_s
                raise Refused(f"{self.access.url} did not end its answer within {seconds:g} s", LARGE)
        return b"".join(pieces)


def refusal(url: str, status: int, body: bytes, retry_after: str | None) -> Refused:
    """The error of an answer that is not 200: what was said, what helps, and what to do."""
    text, helps = _judged(url, status, body)
    return Refused(text, helps, _seconds(retry_after) if helps == LATER else None, status)


def _judged(url: str, status: int, body: bytes) -> tuple[str, str]:
    """(what to tell, what helps)."""
    kind, text = _error_of(body)
    said = f"{url} answered {status}" + (f": {_short(text)}" if text else "")
    if status == 429:
        return f"{said}; it asks for a pause", LATER
    if status in (401, 403):
        return f"{said}; check user and password, token, tenant or client certificate", NEVER
    if status == 404:
        return f"{said}; there is no Prometheus API: {CHECK_PATH}", NEVER
    if 300 <= status < 400:
        return f"{said}; it redirects: give the address that it points to", NEVER
    if status == 503:
        if kind == "timeout" or _TIMEOUT_TEXT.search(text):
            return said, LARGE
        return f"{said}; it is not ready or overloaded", LATER
    if status in (413, 504) or _LARGE_TEXT.search(text):
        return f"{said}; raise that limit of the server", LARGE
    if status >= 500 or status == 408:
        return said, LATER
    return said, NEVER


def _error_of(body: bytes) -> tuple[str, str]:
    """(errorType, error) of an error answer; the first line of any other."""
    try:
        answer = json.loads(body)
        kind, text = str(answer.get("errorType") or ""), str(answer.get("error") or answer.get("message") or "")
    except (ValueError, AttributeError, RecursionError):
        kind, text = "", body.decode(errors="replace")
        text = "" if text.lstrip()[:1] == "<" else text
    line = " ".join(text.split())
    return kind, line


def _short(text: str) -> str:
    """An error text without its middle: VictoriaMetrics tells the query first and the cause last."""
    if len(text) <= MAX_ERROR_TEXT:
        return text
    return f"{text[: MAX_ERROR_TEXT // 3]} ... {text[-MAX_ERROR_TEXT * 2 // 3 :]}"


def _seconds(retry_after: str | None) -> float | None:
    """A Retry-After in seconds, bounded; a date counts as not told."""
    text = (retry_after or "").strip()
    return min(float(text), MAX_WAIT_S) if text.isascii() and text.isdigit() and len(text) < 9 else None


def _tls(text: str) -> str:
    if "CERTIFICATE_VERIFY_FAILED" in text:
        why = re.search(r"certificate verify failed: ([^(\"']+)", text)
        return (
            f"its certificate is not trusted ({why[1].strip() if why else 'unknown issuer'}); give the file of its CA"
        )
    match = re.search(r"\[SSL: ([A-Z0-9_]+)\]", text)
    return f"TLS failed ({match[1] if match else 'handshake'}); check http or https, CA and client certificate"
