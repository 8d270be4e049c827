"""APIs that answer JSON over HTTP: where one is and who asks, and one bounded answer at a time, its failures in words."""

from __future__ import annotations

import asyncio
import json
from base64 import b64encode
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Self
from urllib.parse import urlsplit

from gpuwatch.collectors.shared.credentials import Secret, Tls
from gpuwatch.collectors.shared.live_options import Options
from gpuwatch.core.errors import SourceUnreachable

if TYPE_CHECKING:
    import aiohttp  # takes 0.2 s: commands that only look for importers do without

CONNECT_S = 10.0
PIECE_BYTES = 1 << 20
COMPLAINT_BYTES = 4096
COMPLAINT_CHARS = 200
LOOPBACK = ("127.0.0.1", "localhost", "::1")
NOWHERE = "http://invalid.invalid"
"""Stands for a server that cannot be named; it is never asked, since the settings are refused."""


class NotServed(SourceUnreachable):
    """The server does not have this path: an older or newer one, or another program."""


@dataclass(frozen=True)
class Access:
    """Where a server is, how to prove who asks, and how much is taken."""

    url: str
    what: str
    """The server in words: "YuniKorn"."""
    where: str
    """Its table in gpuwatch.toml: "[[yunikorn]]"."""
    hints: Mapping[int, str] = field(default_factory=dict)
    """What to do about an HTTP status, beside those of every server."""
    timeout_s: float = 20.0
    max_bytes: int = 256 << 20
    username: str = ""
    password: Secret | None = None
    bearer_token: Secret | None = None
    tls: Tls | None = None


def access_of(
    options: Options, what: str, where: str, example: str, hints: Mapping[int, str], timeout_s: float
) -> Access:
    """Address, credentials, TLS and bounds of a table; what is wrong is told. `example` is an address as it should be."""
    url = options.text("url").rstrip("/")
    username, password = options.text("username"), secret_of(options, "password")
    token = secret_of(options, "bearer_token")
    if bool(username) != (password is not None):
        options.wrong("username", "belongs together with password or password_file")
    if token is not None and password is not None:
        options.wrong("bearer_token", "give it, or username and password, not both")
    ca, cert, key = (options.path(name) for name in ("ca_file", "cert_file", "key_file"))
    tls = Tls(ca, cert, key, options.flag("insecure_skip_verify", False))
    if key and not cert:
        options.wrong("key_file", "needs cert_file")
    if ca or cert:
        try:
            tls.context()
        except ValueError as error:
            options.wrong("ca_file, cert_file, key_file", str(error))
    scheme = _scheme(options, url, example, bool(token or password))
    return Access(
        url if scheme else NOWHERE,
        what,
        where,
        hints,
        options.number("timeout_s", timeout_s, 0.1, 600),
        int(options.number("max_bytes", 256 << 20, 1024, 4 << 30)),
        username,
        password,
        token,
        tls if scheme == "https" else None,
    )


def secret_of(options: Options, name: str) -> Secret | None:
    """A secret given in the table, or in the file that `<name>_file` names; it is read once, so that a wrong file is told."""
    text, file = options.text(name), options.text(f"{name}_file")
    if text and file:
        options.wrong(name, f"give it or {name}_file, not both")
    if not text and not file:
        return None
    secret = Secret("" if file else text, file)
    try:
        secret.read()
    except ValueError as error:
        options.wrong(f"{name}_file", str(error))
    return secret


def _scheme(options: Options, url: str, example: str, secret: bool) -> str:
    """http or https; empty where the address is wrong, which is told."""
    try:
        parts = urlsplit(url)
        plain = parts.scheme in ("http", "https") and parts.hostname and not parts.query and not parts.fragment
        wrong = not plain or "@" in parts.netloc or (parts.port or 1) < 1
    except ValueError:
        wrong = True
    if wrong:
        options.wrong("url", f"must be an address like {example}, without a name or password in it")
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

        self._session = aiohttp.ClientSession(read_bufsize=PIECE_BYTES, cookie_jar=aiohttp.DummyCookieJar())
        return self

    async def __aexit__(self, *_: object) -> None:
        await self._session.close()

    async def get(self, path: str) -> Any:
        """The JSON value that a path (quoted, with its query) answers.

        Raises NotServed for a path that is not there, SourceUnreachable for all else that is no answer.
        """
        import aiohttp

        access = self._access
        shown = access.url + path.partition("?")[0]
        timeout = aiohttp.ClientTimeout(total=access.timeout_s, sock_connect=min(CONNECT_S, access.timeout_s))
        try:
            tls = True if access.tls is None else access.tls.context()
            options: dict[str, Any] = {"headers": self._headers(), "timeout": timeout, "ssl": tls}
            # A redirect could carry the secret to another host.
            async with self._session.get(access.url + path, allow_redirects=False, **options) as answer:
                body, status = await bounded(answer, access.max_bytes), answer.status
        except ValueError as error:
            raise SourceUnreachable(f"{shown} was not asked: {error}; check {access.where}") from None
        except (aiohttp.ClientError, TimeoutError, OSError) as error:
            raise SourceUnreachable(f"{shown}: {self._why(error)}") from error
        if len(body) > access.max_bytes:
            raise SourceUnreachable(f"{shown}: more than max_bytes ({access.max_bytes:,}); raise it in {access.where}")
        if status != 200:
            raise self._refused(shown, status, body)
        try:
            # A big cluster answers with megabytes: they are read beside the loop, which other sources share.
            return await asyncio.to_thread(json.loads, body)
        except (ValueError, RecursionError):
            raise SourceUnreachable(f"{shown}: not JSON; url in {access.where} must be that of {access.what}") from None

    def _why(self, error: Exception) -> str:
        import aiohttp

        access = self._access
        runs = f"check that {access.what} runs and can be reached from here"
        if isinstance(error, TimeoutError):
            return (
                f"no whole answer within {access.timeout_s:g} s; raise timeout_s in {access.where}, or look at its load"
            )
        if isinstance(error, aiohttp.ClientConnectorDNSError):
            return f"its host name is not known; check url in {access.where} and DNS"
        if isinstance(error, aiohttp.ClientSSLError):
            return f"the TLS handshake failed; check ca_file, or cert_file and key_file, in {access.where}"
        if isinstance(error, aiohttp.ClientConnectorError):
            return f"{(error.os_error.strerror or 'no connection').lower()}; {runs}"
        return f"{str(error) or type(error).__name__}; {runs}"

    def _refused(self, shown: str, status: int, body: bytes) -> SourceUnreachable:
        access = self._access
        said = body[:COMPLAINT_BYTES].decode(errors="replace").strip().partition("\n")[0][:COMPLAINT_CHARS]
        hints = {
            401: f"set bearer_token_file, or username and password_file, in {access.where}",
            403: f"these credentials may not read it: see {access.where}",
            404: f"check url in {access.where}: it must be that of {access.what}",
            429: f"it is asked too often: raise interval_s in {access.where}",
        }
        hint = access.hints.get(status) or hints.get(status, f"see the log of {access.what}")
        if 300 <= status < 400:
            hint = f"it redirects, which is not followed: put the final address into url in {access.where}"
        text = f"{shown}: {status} {said}".rstrip() + f"; {hint}"
        return NotServed(text) if status in (400, 404, 405) else SourceUnreachable(text)

    def _headers(self) -> dict[str, str]:
        """Raises ValueError for a secret that cannot be read."""
        headers, access = {"Accept": "application/json"}, self._access
        if access.bearer_token is not None:
            headers["Authorization"] = f"Bearer {access.bearer_token.read()}"
        elif access.password is not None:
            pair = b64encode(f"{access.username}:{access.password.read()}".encode()).decode()
            headers["Authorization"] = f"Basic {pair}"
        return headers


async def bounded(answer: aiohttp.ClientResponse, most: int) -> bytes:
    """The body, at most one piece longer than `most` bytes."""
    found, size = list[bytes](), 0
    async for piece in answer.content.iter_any():
        found.append(piece)
        size += len(piece)
        if size > most:
            break
    return b"".join(found)
