"""YuniKorn's REST API over HTTP: one bounded answer at a time, and every way to fail in words."""

from __future__ import annotations

import json
from base64 import b64encode
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Self
from urllib.parse import quote

from gpuwatch.collectors.scrape_config import Secret, Tls
from gpuwatch.errors import SourceUnreachable

if TYPE_CHECKING:
    import aiohttp  # only the service asks a server; every command loads the collectors

CONNECT_S = 10.0
HINTS = {
    401: "check username and password, or bearer_token, in [[yunikorn]]",
    403: "these credentials may not read it",
    404: "check url in [[yunikorn]]: it is the root of YuniKorn's web service, as http://yunikorn-service:9080",
    429: "it is asked too often: raise interval_s",
}


class NotServed(SourceUnreachable):
    """The server does not have this path: an older or newer YuniKorn."""


@dataclass(frozen=True)
class Access:
    """Where a server is and how to prove who asks."""

    url: str
    timeout_s: float
    max_bytes: int
    username: str = ""
    password: Secret | None = None
    bearer_token: Secret | None = None
    tls: Tls | None = None


class Client:
    """One connection pool to a server. Use it as an async context manager."""

    def __init__(self, access: Access) -> None:
        self._access = access

    async def __aenter__(self) -> Self:
        """Opens the pool. Raises SourceUnreachable for certificates that cannot be read."""
        import aiohttp

        try:
            tls = self._access.tls.context() if self._access.tls is not None else True
        except ValueError as error:
            raise SourceUnreachable(f"{self._access.url} was not asked: {error}; check [[yunikorn]]") from None
        self._session = aiohttp.ClientSession(
            connector=aiohttp.TCPConnector(ssl=tls), cookie_jar=aiohttp.DummyCookieJar()
        )
        return self

    async def __aexit__(self, *_: object) -> None:
        await self._session.close()

    async def get(self, *path: str) -> list[dict[str, Any]]:
        """The objects that a path answers: its list, or the one object. Raises NotServed, SourceUnreachable."""
        import aiohttp

        place = f"{self._access.url}/ws/v1/{'/'.join(quote(part, safe='') for part in path)}"
        timeout = aiohttp.ClientTimeout(total=self._access.timeout_s, sock_connect=CONNECT_S)
        try:
            async with self._session.get(
                place, headers=self._headers(), timeout=timeout, allow_redirects=False
            ) as answer:
                if answer.status in (400, 404, 405):
                    raise NotServed(f"{place}: {answer.status} {answer.reason or ''}; {HINTS[404]}")
                if answer.status != 200:
                    hint = HINTS.get(answer.status, "see the log of YuniKorn's scheduler")
                    raise SourceUnreachable(f"{place}: {answer.status} {answer.reason or ''}; {hint}")
                body = await self._body(answer, place)
        except (aiohttp.ClientError, TimeoutError, OSError) as error:
            why = "no answer in time" if isinstance(error, TimeoutError) else str(error) or type(error).__name__
            raise SourceUnreachable(f"{place}: {why}; check that YuniKorn runs and can be reached from here") from error
        try:
            value = json.loads(body)
        except (ValueError, RecursionError) as error:
            raise SourceUnreachable(f"{place}: not JSON ({str(error)[:100]}); is this YuniKorn?") from error
        items = value if isinstance(value, list) else [] if value is None else [value]
        if not all(isinstance(item, dict) for item in items):
            raise SourceUnreachable(f"{place}: neither an object nor a list of objects; is this YuniKorn?")
        return items

    async def _body(self, answer: aiohttp.ClientResponse, place: str) -> bytes:
        pieces, size = list[bytes](), 0
        async for piece in answer.content.iter_any():
            size += len(piece)
            if size > self._access.max_bytes:
                raise SourceUnreachable(
                    f"{place}: more than max_bytes ({self._access.max_bytes:,}); raise it in [[yunikorn]]"
                )
            pieces.append(piece)
        return b"".join(pieces)

    def _headers(self) -> dict[str, str]:
        access = self._access
        try:
            if access.bearer_token is not None:
                return {"Accept": "application/json", "Authorization": f"Bearer {access.bearer_token.read()}"}
            if access.password is not None:
                pair = b64encode(f"{access.username}:{access.password.read()}".encode()).decode()
                return {"Accept": "application/json", "Authorization": f"Basic {pair}"}
        except ValueError as error:
            raise SourceUnreachable(f"{access.url} was not asked: {error}; check [[yunikorn]]") from None
        return {"Accept": "application/json"}
