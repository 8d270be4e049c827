"""Client for JSON APIs over HTTP: address, credentials, bounded answers, and errors that name the fix."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Self
from urllib.parse import urlsplit

from gpuwatch.collectors.shared.causes import Cause, cause_of
from gpuwatch.collectors.shared.credentials import ANONYMOUS, Credentials, Tls, credential_options, tls_options
from gpuwatch.collectors.shared.live_options import Options
from gpuwatch.core.errors import SourceUnreachable

if TYPE_CHECKING:
    import aiohttp  # takes 0.2 s: commands that only look for importers do without

CONNECT_S = 10.0
READ_BYTES = 1 << 20
COMPLAINT_BYTES = 4096
COMPLAINT_CHARS = 200
LOOPBACK = ("127.0.0.1", "localhost", "::1")
NOWHERE = "http://invalid.invalid"
"""Stands for an invalid address; it is never queried, since the settings are refused."""


class NotServed(SourceUnreachable):
    """The server lacks this path: it is another version, or another program."""


@dataclass(frozen=True)
class Access:
    """Address, credentials and bounds of a server."""

    url: str
    what: str
    """The product name: "YuniKorn"."""
    where: str
    """Its table in gpuwatch.toml: "[[yunikorn]]"."""
    hints: Mapping[int, str] = field(default_factory=dict)
    """The fix for an HTTP status; overrides the common ones."""
    timeout_s: float = 20.0
    max_bytes: int = 256 << 20
    credentials: Credentials = ANONYMOUS
    tls: Tls | None = None


def access_of(
    options: Options, what: str, where: str, example: str, hints: Mapping[int, str], timeout_s: float
) -> Access:
    """Reads address, credentials, TLS and bounds of a table; problems are reported. `example` is a valid address."""
    url = options.text("url").rstrip("/")
    credentials, tls = credential_options(options), tls_options(options)
    scheme = _scheme(options, url, example, bool(credentials))
    return Access(
        url if scheme else NOWHERE,
        what,
        where,
        hints,
        options.number("timeout_s", timeout_s, 0.1, 600),
        int(options.number("max_bytes", 256 << 20, 1024, 4 << 30)),
        credentials,
        tls if scheme == "https" else None,
    )


def _scheme(options: Options, url: str, example: str, secret: bool) -> str:
    """http or https; empty if the address is wrong, which is reported."""
    try:
        parts = urlsplit(url)
        plain = parts.scheme in ("http", "https") and parts.hostname and not parts.query and not parts.fragment
        wrong = not plain or "@" in parts.netloc or (parts.port or 1) < 1
    except ValueError:
        wrong = True
    if wrong:
        options.wrong("url", f"must be an address like {example}, without user name or password")
        return ""
    if parts.scheme == "http" and secret and parts.hostname not in LOOPBACK:
        options.wrong("url", "is http: a secret would be sent in the clear; use https")
    return parts.scheme


class Client:
    """One connection pool to a server. Use it as an async context manager."""

    def __init__(self, access: Access) -> None:
        self._access = access

    async def __aenter__(self) -> Self:
        import aiohttp

        self._session = aiohttp.ClientSession(read_bufsize=READ_BYTES, cookie_jar=aiohttp.DummyCookieJar())
        return self

    async def __aexit__(self, *_: object) -> None:
        await self._session.close()

    async def get(self, path: str) -> Any:
        """The JSON answer of a path (quoted, with its query).

        Raises NotServed for an unknown path, SourceUnreachable for any other failure.
        """
        import aiohttp

        access = self._access
        shown = access.url + path.partition("?")[0]
        timeout = aiohttp.ClientTimeout(total=access.timeout_s, sock_connect=min(CONNECT_S, access.timeout_s))
        try:
            tls = True if access.tls is None else access.tls.context()
            options: dict[str, Any] = {
                "headers": {"Accept": "application/json"} | access.credentials.headers(),
                "timeout": timeout,
                "ssl": tls,
            }
            # A redirect could carry the secret to another host.
            async with self._session.get(access.url + path, allow_redirects=False, **options) as answer:
                body, status = await bounded(answer, access.max_bytes), answer.status
        except ValueError as error:
            raise SourceUnreachable(f"{shown} was not queried: {error}; check {access.where}") from None
        except (aiohttp.ClientError, TimeoutError, OSError) as error:
            raise SourceUnreachable(f"{shown}: {self._why(error)}") from error
        if len(body) > access.max_bytes:
            raise SourceUnreachable(f"{shown}: more than max_bytes ({access.max_bytes:,}); raise it in {access.where}")
        if status != 200:
            raise self._refused(shown, status, body)
        try:
            # Large clusters answer with megabytes: parse them in a thread, since the event loop is shared.
            return await asyncio.to_thread(json.loads, body)
        except (ValueError, RecursionError):
            raise SourceUnreachable(f"{shown}: not JSON; url in {access.where} must be that of {access.what}") from None

    def _why(self, error: Exception) -> str:
        access, (cause, words) = self._access, cause_of(error)
        if cause is Cause.SILENCE:
            return f"no complete answer within {access.timeout_s:g} s; raise timeout_s in {access.where}, or check its load"
        if cause is Cause.NAME:
            return f"{words}; check url in {access.where} and DNS"
        if cause in (Cause.CERTIFICATE, Cause.TLS):
            return f"{words}; check ca_file, or cert_file and key_file, in {access.where}"
        return f"{words}; check that {access.what} runs and can be reached from here"

    def _refused(self, shown: str, status: int, body: bytes) -> SourceUnreachable:
        access = self._access
        message = body[:COMPLAINT_BYTES].decode(errors="replace").strip().partition("\n")[0][:COMPLAINT_CHARS]
        hints = {
            401: f"set bearer_token_file, or username and password_file, in {access.where}",
            403: f"these credentials have no read permission: see {access.where}",
            404: f"check url in {access.where}: it must be that of {access.what}",
            429: f"too many requests: raise interval_s in {access.where}",
        }
        hint = access.hints.get(status) or hints.get(status, f"see the log of {access.what}")
        if 300 <= status < 400:
            hint = f"it redirects, which is not followed: put the final address into url in {access.where}"
        text = f"{shown}: {status} {message}".rstrip() + f"; {hint}"
        return NotServed(text) if status in (400, 404, 405) else SourceUnreachable(text)


async def bounded(answer: aiohttp.ClientResponse, most: int) -> bytes:
    """The body; reading stops once it exceeds `most` bytes."""
    chunks, size = list[bytes](), 0
    async for chunk in answer.content.iter_any():
        chunks.append(chunk)
        size += len(chunk)
        if size > most:
            break
    return b"".join(chunks)
