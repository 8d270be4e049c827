"""Client of a Kubernetes API server: pages of a list and lines of a watch, with every answer bounded."""

from __future__ import annotations

import json
import ssl
from collections.abc import AsyncGenerator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Self

from gpuwatch.collectors.shared.causes import Cause, cause_of
from gpuwatch.collectors.shared.credentials import tls_context
from gpuwatch.collectors.shared.http_json import bounded
from gpuwatch.collectors.shared.json_fields import Object
from gpuwatch.core.errors import SourceUnreachable

if TYPE_CHECKING:
    import aiohttp  # takes 0.2 s: commands that only look for importers do without

MAX_PAGE_BYTES = 128 << 20
MAX_LINE_BYTES = 8 << 20
"""etcd holds no object above 1.5 MiB."""
MAX_PAGES = 100_000
MAX_COMPLAINT_BYTES = 4096
MAX_RETRY_AFTER_S = 300.0
MAX_TOKEN_BYTES = 64 << 10
CONNECT_S = 10.0
LIST_S = 60.0
SILENCE_S = 10.0
"""How long a watch may be silent after its requested end."""


FIXES = {
    Cause.NAME: "check server in [[kubernetes]] and DNS",
    Cause.CERTIFICATE: "set ca_file in [[kubernetes]] to the cluster's CA",
    Cause.TLS: "check that server in [[kubernetes]] is an https port, and cert_file and key_file",
    Cause.CUT: "the query is repeated",
    Cause.HTTP: "check server in [[kubernetes]]: this is not an API server",
}


class Gone(SourceUnreachable):
    """410: the server no longer keeps the requested version or the next page. List again."""


class Garbled(Gone):
    """A watch has a line that cannot be read. The lost change is unknown, so list again."""


class Refused(SourceUnreachable):
    """The server answered with an error, `status` 0 for an invalid answer; `retry_after_s` is its Retry-After."""

    def __init__(self, text: str, retry_after_s: float | None = None, status: int = 0) -> None:
        super().__init__(text)
        self.retry_after_s = retry_after_s
        self.status = status


@dataclass(frozen=True)
class Access:
    """Address and credentials of a server. Files are read again for each connection, since they rotate."""

    server: str
    token_file: str = ""
    ca_file: str = ""
    cert_file: str = ""
    key_file: str = ""
    insecure_skip_verify: bool = False


class Client:
    """One connection pool to a server. Use it as an async context manager."""

    def __init__(self, access: Access, traces: Sequence[aiohttp.TraceConfig] = ()) -> None:
        """`traces` follow each request."""
        self._access = access
        self._traces = list(traces)

    async def __aenter__(self) -> Self:
        """Opens the pool. Raises SourceUnreachable for certificates that cannot be read."""
        import aiohttp

        connector = aiohttp.TCPConnector(ssl=_tls(self._access))
        self._session = aiohttp.ClientSession(connector=connector, read_bufsize=1 << 20, trace_configs=self._traces)
        return self

    async def __aexit__(self, *_: object) -> None:
        await self._session.close()

    async def pages(self, path: str, page_size: int) -> AsyncGenerator[tuple[list[Object], str], None]:
        """Items of a collection and its resourceVersion, page by page. Raises Gone, Refused, SourceUnreachable."""
        query, asked = {"limit": str(page_size)}, set[int]()
        for _ in range(MAX_PAGES):
            body = await self._page(path, query)
            metadata = body.get("metadata")
            known: Object = metadata if isinstance(metadata, dict) else {}
            items = body.get("items")
            if items is not None and not isinstance(items, list):
                raise Refused(f"{self._access.server}{path}: the answer has no list; is this an API server?")
            yield [item for item in items or [] if isinstance(item, dict)], str(known.get("resourceVersion") or "")
            if not known.get("continue"):
                return
            query["continue"] = str(known["continue"])
            if hash(query["continue"]) in asked:
                raise Refused(f"{self._access.server}{path}: its pages repeat; is there a proxy in between?")
            asked.add(hash(query["continue"]))
        raise Refused(f"{self._access.server}{path}: more than {MAX_PAGES} pages")

    async def document(self, path: str) -> Object:
        """One answer of the discovery API. Raises Refused, SourceUnreachable."""
        return await self._page(path, {})

    async def lines(self, path: str, version: str, timeout_s: int) -> AsyncGenerator[list[bytes], None]:
        """Lines of a watch until the server ends it; lines that arrive together come together.

        The first batch is empty: the watch is established, though there may be no change for hours. An incomplete last
        line is left out. Raises Gone, Refused, SourceUnreachable.
        """
        import aiohttp

        query = {"watch": "true", "allowWatchBookmarks": "true", "timeoutSeconds": str(timeout_s)}
        query |= {"resourceVersion": version} if version else {}
        timeout = aiohttp.ClientTimeout(total=None, sock_connect=CONNECT_S, sock_read=timeout_s + SILENCE_S)
        partial = b""
        try:
            async with self._session.get(**self._request(path, query), timeout=timeout) as answer:
                await self._checked(answer, path)
                yield []
                async for chunk in answer.content.iter_any():
                    *whole, partial = (partial + chunk).split(b"\n")
                    if len(partial) > MAX_LINE_BYTES or any(len(line) > MAX_LINE_BYTES for line in whole):
                        raise Garbled(f"{path}: an event is longer than {MAX_LINE_BYTES} bytes")
                    yield [line for line in whole if line.strip()]
        except (aiohttp.ClientError, TimeoutError, OSError) as error:
            raise self._unreachable(path, error) from error

    async def _page(self, path: str, query: dict[str, str]) -> Object:
        import aiohttp

        timeout = aiohttp.ClientTimeout(total=LIST_S, sock_connect=CONNECT_S)
        try:
            async with self._session.get(**self._request(path, query), timeout=timeout) as answer:
                await self._checked(answer, path)
                body = await bounded(answer, MAX_PAGE_BYTES)
        except (aiohttp.ClientError, TimeoutError, OSError) as error:
            raise self._unreachable(path, error) from error
        if len(body) > MAX_PAGE_BYTES:
            raise Refused(f"{path}: a page is larger than {MAX_PAGE_BYTES} bytes; lower page_size in [[kubernetes]]")
        try:
            value = json.loads(body)
        except (ValueError, RecursionError) as error:
            raise Refused(f"{self._access.server}{path}: not JSON ({error}); is this an API server?") from error
        if not isinstance(value, dict):
            raise Refused(f"{self._access.server}{path}: not a list of objects; is this an API server?")
        return value

    def _request(self, path: str, query: dict[str, str]) -> dict[str, Any]:
        headers = {"Accept": "application/json"}
        if self._access.token_file:
            headers["Authorization"] = f"Bearer {_token(self._access.token_file)}"
        # A redirect could carry the token to another host.
        url = self._access.server + path
        return {"url": url, "params": query, "headers": headers, "allow_redirects": False}

    async def _checked(self, answer: aiohttp.ClientResponse, path: str) -> None:
        if answer.status == 200:
            return
        message = _message(await bounded(answer, MAX_COMPLAINT_BYTES))
        if answer.status == 410:
            raise Gone(f"{path}: {message or 'the resource version is too old'}")
        raise Refused(
            f"{self._access.server}{path}: {answer.status} {message or answer.reason or ''}; {_fix(answer.status, path)}",
            _retry_after_s(answer.headers.get("Retry-After")),
            answer.status,
        )

    def _unreachable(self, path: str, error: Exception) -> SourceUnreachable:
        cause, words = cause_of(error)
        fix = FIXES.get(cause, "check that the API server runs and can be reached from here")
        return SourceUnreachable(f"{self._access.server}{path}: {words}; {fix}")


def _fix(status: int, path: str) -> str:
    if status == 401:
        return "the token or client certificate is not accepted: renew bearer_token_file or cert_file in [[kubernetes]]"
    if status == 403:
        return f"bind {missing_rule(path)} to this account"
    if status == 404:
        return "check server in [[kubernetes]]: this is not the root of an API server"
    if status == 429 or status >= 500:
        return "the server is busy or starting; the query is retried"
    return "see the API server's log"


def missing_rule(path: str) -> str:
    """The RBAC rule needed to read a collection or the discovery API, in Kubernetes' words."""
    words = path.strip("/").split("/")
    if len(words) < (4 if words[0] == "apis" else 3):
        return "the ClusterRole system:discovery"
    group = words[1] if words[0] == "apis" else ""
    where = f"a Role in namespace {words[-2]}" if "namespaces" in words[:-1] else "a ClusterRole"
    return f'{where} with the rule apiGroups: ["{group}"], resources: ["{words[-1]}"], verbs: ["list", "watch"]'


def _retry_after_s(text: str | None) -> float | None:
    return min(float(text), MAX_RETRY_AFTER_S) if text and text.isascii() and text.isdigit() else None


def _message(body: bytes) -> str:
    """The message of a Status object, otherwise the first line of the text."""
    try:
        value = json.loads(body)
    except (ValueError, RecursionError):
        value = None
    text = value.get("message") if isinstance(value, dict) else body.decode(errors="replace")
    return next(iter(str(text or "").strip().splitlines()), "")[:300]


def _token(path: str) -> str:
    try:
        with open(path, "rb") as file:
            return file.read(MAX_TOKEN_BYTES).decode().strip()
    except (OSError, UnicodeDecodeError) as error:
        raise Refused(f"bearer_token_file {path}: cannot be read; check [[kubernetes]]") from error


def _tls(access: Access) -> ssl.SSLContext | bool:
    if not access.server.startswith("https:"):
        return True
    insecure = access.insecure_skip_verify
    return tls_context(access.ca_file, access.cert_file, access.key_file, insecure, "[[kubernetes]]")
