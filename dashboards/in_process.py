"""Requests to the API's application in this process."""

from __future__ import annotations

import asyncio
import json
import logging
from collections.abc import Mapping
from typing import Any
from urllib.parse import unquote, urlencode

import httpx
from starlette.types import ASGIApp, Message

HOST = "localhost"
_log = logging.getLogger("gpuwatch.dashboards")


async def ask(
    app: ASGIApp,
    address: tuple[str, int],
    method: str,
    path: str,
    params: Mapping[str, str],
    headers: Mapping[str, str],
    body: Mapping[str, Any] | str | None,
) -> httpx.Response:
    """The answer of an ASGI application to one request of a client with this address. An application that fails answers 500.

    A body that is text has its content type in `headers`.
    """
    text = body if isinstance(body, str) else "" if body is None else json.dumps(body)
    content = text.encode()
    sent = {"host": HOST, "accept": "*/*", "content-type": "application/json", **headers}
    if body is None:
        del sent["content-type"]
    else:
        sent["content-length"] = str(len(content))
    scope = {
        "type": "http",
        "asgi": {"version": "3.0"},
        "http_version": "1.1",
        "method": method,
        "scheme": "http",
        "path": unquote(path),
        "raw_path": path.encode("ascii"),
        "query_string": urlencode(params).encode("ascii"),
        "headers": [(name.lower().encode("latin-1"), value.encode("latin-1")) for name, value in sent.items()],
        "server": (HOST, 80),
        "client": address,
        "root_path": "",
    }
    begun: Message = {"status": 500, "headers": []}
    pieces: list[bytes] = []
    taken, ended = False, asyncio.Event()

    async def receive() -> Message:
        nonlocal taken
        if not taken:
            taken = True
            return {"type": "http.request", "body": content, "more_body": False}
        await ended.wait()
        return {"type": "http.disconnect"}

    async def send(message: Message) -> None:
        nonlocal begun
        if message["type"] == "http.response.start":
            begun = message
        elif message["type"] == "http.response.body":
            pieces.append(message.get("body", b""))
            if not message.get("more_body", False):
                ended.set()

    try:
        await app(scope, receive, send)
    except Exception:  # noqa: BLE001 - as of a server: the caller sees the status 500
        _log.exception("%s %s failed", method, path)
        return httpx.Response(500)
    return httpx.Response(begun["status"], headers=begun["headers"], content=b"".join(pieces))
