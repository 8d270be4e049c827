"""Fetches a page over HTTP within bounds of time and size; every failure names its cause and fix."""

from __future__ import annotations

import resource
import ssl
import zlib
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING
from urllib.parse import urlsplit

from gpuwatch.collectors.dcgm.scrape.config import Target
from gpuwatch.core.errors import SourceUnreachable

if TYPE_CHECKING:
    import aiohttp

ACCEPT = "text/plain;version=0.0.4,*/*;q=0.1"
AGENT = "gpuwatch"
KEEP_ALIVE_S = 120.0
DNS_CACHE_S = 300
GZIP_BITS = 31
EXACT_S = 3_600.0  # timeouts below it are not rounded to whole seconds
HTML = ("text/html", "application/xhtml+xml")

_HINTS = {
    401: "check username and password, or bearer_token",
    403: "these credentials have no read permission",
    404: "check the path: dcgm-exporter serves /metrics",
    429: "too many requests: raise interval_s",
}


class Client:
    """The HTTP session that the sources of a configuration share while they run."""

    def __init__(self, targets: int) -> None:
        """`targets` is the maximum number of connections."""
        self._targets = targets
        self._session: aiohttp.ClientSession | None = None
        self._users = 0

    @asynccontextmanager
    async def session(self) -> AsyncIterator[aiohttp.ClientSession]:
        """The session of the running loop; the last user closes it."""
        self._users += 1
        try:
            if self._session is None:
                self._session = self._open()
            yield self._session
        finally:
            self._users -= 1
            if not self._users and self._session is not None:
                session, self._session = self._session, None
                await session.close()

    def _open(self) -> aiohttp.ClientSession:
        # Imported here: every command loads the collectors by name, only the service scrapes.
        import aiohttp

        files, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
        few_files = files != resource.RLIM_INFINITY and self._targets > files // 2
        connector = aiohttp.TCPConnector(
            limit=0,  # each target has at most one connection; with a shared limit, hanging targets would block the others
            ttl_dns_cache=DNS_CACHE_S,
            dns_cache_max_size=max(self._targets, 1),
            force_close=few_files,
            keepalive_timeout=None if few_files else KEEP_ALIVE_S,
        )
        return aiohttp.ClientSession(
            connector=connector,
            cookie_jar=aiohttp.DummyCookieJar(),
            auto_decompress=False,  # done below, with a size limit
            headers={"Accept": ACCEPT, "Accept-Encoding": "gzip", "User-Agent": AGENT},
        )


async def fetch(session: aiohttp.ClientSession, target: Target, dated: Callable[[str], None] | None = None) -> bytes:
    """The decompressed page of a target. Raises SourceUnreachable with cause and fix.

    `dated` is called with the Date header of a good answer when it arrives.
    """
    import aiohttp

    try:
        headers, tls = target.credentials.headers(), True if target.tls is None else target.tls.context()
    except ValueError as error:
        raise SourceUnreachable(f"{target.shown} was not scraped: {error}") from None
    try:
        async with session.get(
            target.url,
            headers=headers,
            timeout=aiohttp.ClientTimeout(total=target.timeout_s, ceil_threshold=EXACT_S),
            allow_redirects=False,
            ssl=tls,
        ) as response:
            _check(response)
            if dated is not None:
                dated(response.headers.get("Date", ""))
            return await _body(response, target.max_bytes)
    except SourceUnreachable as error:
        why = str(error)
    except (aiohttp.ClientError, OSError, ValueError) as error:
        why = _failure(error, target.timeout_s)
    raise SourceUnreachable(f"{target.shown} {why}")


def _failure(error: Exception, timeout_s: float) -> str:
    """The cause of a failed request and its fix. The special errors come before those they derive from."""
    import aiohttp

    match error:
        case TimeoutError():
            return f"gave no complete answer within {timeout_s:g} s; check its load, or raise timeout_s"
        case aiohttp.ClientConnectorDNSError():
            return "has an unknown host name; check targets and DNS"
        case aiohttp.ClientSSLError():
            return f"failed the TLS handshake ({_tls_reason(error)}); check ca_file, or cert_file and key_file"
        case aiohttp.ClientConnectorError():
            refused = isinstance(error.os_error, ConnectionRefusedError)
            reason = "connection refused" if refused else error.os_error.strerror or "no connection"
            return f"cannot be reached ({reason}); check that dcgm-exporter runs and its port is open"
        case aiohttp.ClientPayloadError():
            return "broke off its answer; the scrape is dropped"
        case aiohttp.ServerDisconnectedError() | ConnectionError():
            return "closed the connection without an answer; check that dcgm-exporter runs"
        case aiohttp.ClientResponseError():
            return f"did not answer in valid HTTP ({error.message.splitlines()[0] if error.message else 'bad answer'})"
        case _:
            return f"failed: {type(error).__name__}: {error}"


def _check(response: aiohttp.ClientResponse) -> None:
    """Refuses an answer whose status or content type shows that it is not a page of metrics."""
    status = response.status
    if 300 <= status < 400:
        where = urlsplit(response.headers.get("Location", ""))
        to = f" to {where.scheme}://{where.hostname}{where.path}" if where.hostname else f" to {where.path}"
        raise SourceUnreachable(f"answered {status}, a redirect{to}; put the final address into targets")
    if status != 200:
        hint = _HINTS.get(status, "see its log")
        raise SourceUnreachable(f"answered {status} {response.reason or ''}".rstrip() + f"; {hint}")
    if response.content_type in HTML:
        raise SourceUnreachable("answered with an HTML page, not with metrics; check port and path")


async def _body(response: aiohttp.ClientResponse, max_bytes: int) -> bytes:
    """The whole body, at most `max_bytes` of it after decompression."""
    encoding = response.headers.get("Content-Encoding", "identity").strip().lower()
    if encoding not in ("identity", "", "gzip", "x-gzip"):
        raise SourceUnreachable(f"answered in encoding {encoding[:40]!r}, which was not requested")
    unpack = zlib.decompressobj(GZIP_BITS) if "gzip" in encoding else None
    chunks: list[bytes] = []
    size = 0
    async for chunk in response.content.iter_any():
        if unpack is not None:
            try:
                chunk = unpack.decompress(chunk, max_bytes - size + 1)
            except zlib.error:
                raise SourceUnreachable("sent damaged gzip data; the scrape is dropped") from None
        size += len(chunk)
        if size > max_bytes:
            raise SourceUnreachable(f"answered with more than max_bytes ({max_bytes:,}); is it an exporter?")
        chunks.append(chunk)
    if unpack is not None and not unpack.eof:
        raise SourceUnreachable("broke off its answer; the scrape is dropped")
    body = b"".join(chunks)
    measured = unpack is not None or "Content-Length" in response.headers or "Transfer-Encoding" in response.headers
    if not measured and not body.endswith(b"\n"):
        raise SourceUnreachable("broke off its answer; the scrape is dropped")
    return body


def _tls_reason(error: Exception) -> str:
    """OpenSSL's reason, without addresses."""
    seen: BaseException | None = error
    while seen is not None:
        found = getattr(seen, "certificate_error", seen)
        if message := getattr(found, "verify_message", ""):
            return str(message)
        if isinstance(found, ssl.SSLError) and (reason := getattr(found, "reason", "")):
            return str(reason).lower().replace("_", " ")
        seen = getattr(seen, "os_error", None) or seen.__cause__
    return "not a TLS server"
