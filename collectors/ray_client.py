"""The dashboard of a Ray head over HTTP. Every answer is bounded in time and bytes."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Self
from urllib.parse import urlencode

from gpuwatch.collectors.scrape_config import Secret, Tls
from gpuwatch.errors import SourceUnreachable

if TYPE_CHECKING:
    import aiohttp  # takes 0.2 s: commands that only look for importers do without

LIMIT = 10_000
"""Items that the state API lists at most (RAY_MAX_LIMIT_FROM_API_SERVER)."""
PIECE_BYTES = 1 << 20
COMPLAINT_BYTES = 4096
COMPLAINT_CHARS = 200
IDS_A_QUESTION = 100
"""Actors asked for by id at once: the address of a question stays below 8 KiB."""

VERSION = "/api/version"
JOBS = "/api/jobs/"
NODES = "/nodes?view=summary"

Query = Sequence[tuple[str, str]]


def listing(what: str, *unlike: tuple[str, str, str]) -> str:
    """Path of a list of the state API with all its details; `unlike` are filters (key, = or !=, value)."""
    query: list[tuple[str, str]] = [("detail", "1"), ("limit", str(LIMIT))]
    for key, predicate, value in unlike:
        query += [("filter_keys", key), ("filter_predicates", predicate), ("filter_values", value)]
    return f"/api/v0/{what}?{urlencode(query)}"


def actors_by_id(ids: Sequence[str]) -> str:
    """Path of the dashboard's word on some actors, with start and end."""
    return f"/logical/actors?{urlencode([('ids', ','.join(ids))])}"


@dataclass(frozen=True)
class Access:
    """Where a dashboard is and how to prove who asks."""

    url: str
    timeout_s: float
    max_bytes: int
    token: Secret | None = None
    username: str = ""
    password: Secret | None = None
    tls: Tls | None = None


class Client:
    """One connection pool to a dashboard. Use it as an async context manager."""

    def __init__(self, access: Access) -> None:
        self._access = access

    async def __aenter__(self) -> Self:
        import aiohttp

        self._session = aiohttp.ClientSession(read_bufsize=PIECE_BYTES, cookie_jar=aiohttp.DummyCookieJar())
        return self

    async def __aexit__(self, *_: object) -> None:
        await self._session.close()

    async def ask(self, path: str) -> Any:
        """The JSON value of an answer. Raises SourceUnreachable that says what failed and what to do."""
        import aiohttp

        shown = self._access.url + path.partition("?")[0]
        timeout = aiohttp.ClientTimeout(total=self._access.timeout_s)
        try:
            tls = True if self._access.tls is None else self._access.tls.context()
            options: dict[str, Any] = {"headers": self._headers(), "timeout": timeout, "ssl": tls}
            # A redirect could carry the token to another host.
            async with self._session.get(self._access.url + path, allow_redirects=False, **options) as answer:
                body = await _bounded(answer, self._access.max_bytes)
                status = answer.status
        except TimeoutError:
            why = (
                f"no whole answer within {self._access.timeout_s:g} s; raise timeout_s in [[ray]], or look at the head"
            )
            raise SourceUnreachable(f"{shown}: {why}") from None
        except ValueError as error:
            raise SourceUnreachable(f"{shown} was not asked: {error}") from None
        except (aiohttp.ClientError, OSError) as error:
            why = str(error) or type(error).__name__
            raise SourceUnreachable(
                f"{shown}: {why}; check that the Ray head runs and its dashboard is reached from here"
            ) from error
        if len(body) > self._access.max_bytes:
            raise SourceUnreachable(f"{shown}: more than max_bytes ({self._access.max_bytes:,}); raise it in [[ray]]")
        if status != 200:
            said = body[:COMPLAINT_BYTES].decode(errors="replace").strip().partition("\n")[0][:COMPLAINT_CHARS]
            raise SourceUnreachable(f"{shown}: {status} {said}; {_fix(status)}")
        try:
            # A big cluster answers with megabytes: they are read beside the loop, which other sources share.
            return await asyncio.to_thread(json.loads, body)
        except (ValueError, RecursionError):
            raise SourceUnreachable(f"{shown}: not JSON; url in [[ray]] must be that of a Ray dashboard") from None

    def _headers(self) -> dict[str, str]:
        """Raises ValueError for a secret that cannot be read."""
        from aiohttp import BasicAuth

        headers = {"Accept": "application/json"}
        if self._access.token is not None:
            headers["Authorization"] = f"Bearer {self._access.token.read()}"
        elif self._access.password is not None:
            headers["Authorization"] = BasicAuth(self._access.username, self._access.password.read()).encode()
        return headers


def _fix(status: int) -> str:
    if status in (401, 403):
        return "set bearer_token_file (or username and password_file) in [[ray]]"
    if status == 404:
        return "check url in [[ray]]: it must be that of a Ray dashboard, http://head:8265"
    if status == 429:
        return "it is asked too often: raise interval_s in [[ray]]"
    return "see the head's dashboard.log; asked again later"


async def _bounded(answer: aiohttp.ClientResponse, most: int) -> bytes:
    """The body, at most one piece longer than `most` bytes."""
    found, size = list[bytes](), 0
    async for piece in answer.content.iter_any():
        found.append(piece)
        size += len(piece)
        if size > most:
            break
    return b"".join(found)
