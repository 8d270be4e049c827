"""Queries to a server of the Prometheus API through prometheus-api-client, bounded in time and size.

The library reads whole answers and parses them with the standard JSON parser. A hook of its session instead reads them
in chunks up to a limit, turns refusals into one error with a remedy, and hands matrices over as bytes (see response).
"""

from __future__ import annotations

import io
import math
import re
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from datetime import timedelta
from typing import Any
from urllib.parse import urlsplit

from gpuwatch.collectors.prometheus.refusals import CHECK_PATH, LARGE, LATER, NEVER, Refused, refusal
from gpuwatch.collectors.shared.credentials import ANONYMOUS, Credentials
from gpuwatch.core.errors import UnreadableInput

CONNECT_S = 10.0
DEFAULT_TIMEOUT_S = 120.0
"""Time between two chunks of an answer: Prometheus gives up on a query after two minutes."""
WHOLE_FACTOR = 3
"""A complete answer may take this many timeouts."""
MAX_BYTES = 32 * 1024 * 1024
READ_BYTES = 1 << 20
MAX_ERROR_BYTES = 64 * 1024
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


@dataclass(frozen=True)
class Access:
    """Address, credentials and bounds of a server. Secrets appear in no repr."""

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
    """One server, queried from any number of threads; each concurrent query has a connection from a pool."""

    def __init__(self, access: Access, dated: Callable[[str, int], None] | None = None) -> None:
        """`dated` is called with the Date header of each good answer, and how many microseconds its first byte took."""
        self.access = access
        self._dated = dated
        self._free: list[_Connection] = []
        self._closed = False
        self._lock = threading.Lock()

    def matrix(self, query: str, at_s: int) -> bytes:
        """The body of the answer to an instant query for a range of raw samples. Raises Refused."""
        # Without `nocache`, VictoriaMetrics shifts queries about the last 30 seconds into the past.
        params = {"time": str(at_s), "nocache": "1"}
        answer: bytes = self._query(lambda library: library.custom_query(query, params), as_bytes=True)
        return answer

    def vector(self, query: str, at_s: int) -> list[tuple[dict[str, str], float]]:
        """(labels, value) of an instant query; values that are not finite are left out. Raises Refused, UnreadableInput."""
        rows = self._query(lambda library: library.custom_query(query, {"time": str(at_s), "nocache": "1"}))
        try:
            found = [(string_labels(row["metric"]), float(row["value"][1])) for row in rows]
        except (KeyError, TypeError, ValueError, IndexError):
            raise UnreadableInput(f"{self.access.url}: the answer is not a vector of the Prometheus API") from None
        return [(labels, value) for labels, value in found if math.isfinite(value)]

    def names(self, match: str, start_s: int, end_s: int) -> list[str]:
        """Metric names of the series that match within a span of seconds. Raises Refused, UnreadableInput."""
        params = {"match[]": match, "start": str(start_s), "end": str(end_s)}
        found = self._query(lambda library: library.get_label_values("__name__", params))
        if not isinstance(found, list) or not all(isinstance(name, str) for name in found):
            raise UnreadableInput(f"{self.access.url}: the answer is not a list of metric names of the Prometheus API")
        return found

    def close(self) -> None:
        """Closes the connections; one in use is closed after its answer."""
        with self._lock:
            self._closed = True
            free, self._free = self._free, []
        for connection in free:
            connection.library.close()

    @contextmanager
    def _connection(self) -> Iterator[_Connection]:
        """A connection for exclusive use."""
        with self._lock:
            connection = self._free.pop() if self._free else None
        connection = connection or _connect(self.access, self._dated)
        try:
            yield connection
        finally:
            with self._lock:
                closed = self._closed
                if not closed:
                    self._free.append(connection)
            if closed:
                connection.library.close()

    def _query(self, ask: Callable[[Any], Any], as_bytes: bool = False) -> Any:
        """The library's answer, or with `as_bytes` the whole body. Raises Refused: the library's errors repeat the query."""
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
            raise UnreadableInput(f"{url}: this is not an answer of the Prometheus API; {CHECK_PATH}") from None
        except broken.HTTPError:
            # VictoriaMetrics closes the connection when a started answer exceeds a limit.
            raise Refused(f"{url} broke off its answer; see its log for an exceeded limit", LARGE) from None
        except OSError as error:  # includes the library's errors
            why = next((text for text in _REASONS if text.lower() in str(error).lower()), type(error).__name__)
            raise Refused(f"{url} cannot be reached: {why}; check that it runs, and the address", LATER) from None


def base_url(text: str) -> str:
    """The address without /api/v1. Raises ValueError with the problem and without any secret."""
    try:
        parts = urlsplit(text.strip())
        has_credentials = parts.username is not None or parts.password is not None
        good = parts.scheme in ("http", "https") and bool(parts.hostname) and (parts.port or 1) > 0
    except ValueError:
        raise ValueError("is not an address; write http(s)://host[:port][/path]") from None
    if has_credentials:
        raise ValueError("contains a user name or password: set them separately, the password in a file")
    if not good or not text.strip().isprintable() or " " in text.strip():
        raise ValueError("is not an address; write http(s)://host[:port][/path]")
    if parts.query or parts.fragment:
        raise ValueError("must end with its path, without ? and #")
    return f"{parts.scheme}://{parts.netloc}{_API_PATH.sub('', parts.path)}"


def string_labels(labels: Any) -> dict[str, str]:
    """The label set of an answer. Raises ValueError if it is not an object of texts."""
    if not isinstance(labels, dict) or not all(isinstance(value, str) for value in labels.values()):
        raise ValueError("labels are not text")
    return labels


@dataclass
class _Connection:
    """An object of the client library and the hook that reads its answers."""

    library: Any
    hook: _Hook


def _connect(access: Access, dated: Callable[[str, int], None] | None) -> _Connection:
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
    hook = _Hook(access, dated)
    session.hooks["response"] = [hook]
    library = PrometheusConnect(
        access.url,
        headers={"X-Scope-OrgID": access.tenant} if access.tenant else {},
        session=session,
        retry=Retry(0, read=False),  # the caller decides about retries
        auth=_Credentials(access),
        timeout=(CONNECT_S, access.timeout_s),
    )
    return _Connection(library, hook)


class _Credentials:
    """Adds the current secret to each request, so that ~/.netrc never replaces it."""

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
    """Reads an answer up to a limit, and raises Refused for an error."""

    access: Access
    dated: Callable[[str, int], None] | None = None
    as_bytes: bool = field(default=False)

    def __call__(self, response: Any, **_: object) -> Any:
        good = response.status_code == 200
        if good and self.dated is not None:
            self.dated(response.headers.get("Date", ""), response.elapsed // timedelta(microseconds=1))
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
        chunks: list[bytes] = []
        size = 0
        # read1 returns what has arrived; stream() would wait for READ_BYTES, however slowly they come.
        while chunk := response.raw.read1(READ_BYTES, decode_content=True):
            chunks.append(chunk)
            size += len(chunk)
            if size > most:
                if cut:
                    break
                raise Refused(f"{self.access.url} answered with more than {most:,} bytes", LARGE)
            if time.monotonic() > deadline:
                seconds = WHOLE_FACTOR * self.access.timeout_s
                raise Refused(f"{self.access.url} did not end its answer within {seconds:g} s", LARGE)
        return b"".join(chunks)


def _tls(text: str) -> str:
    if "CERTIFICATE_VERIFY_FAILED" in text:
        why = re.search(r"certificate verify failed: ([^(\"']+)", text)
        return f"its certificate is not trusted ({why[1].strip() if why else 'unknown issuer'}); set the file of its CA"
    match = re.search(r"\[SSL: ([A-Z0-9_]+)\]", text)
    return f"TLS failed ({match[1] if match else 'handshake'}); check http or https, CA and client certificate"
