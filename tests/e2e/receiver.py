"""A webhook receiver on this machine: keeps what it is sent, and answers as it is told."""

from __future__ import annotations

import json
import threading
from contextlib import suppress
from dataclasses import dataclass
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from types import TracebackType
from typing import Any, Self


@dataclass(frozen=True)
class Message:
    """What came: its Idempotency-Key and its JSON."""

    key: str
    body: dict[str, Any]

    @property
    def alerts(self) -> list[tuple[str, str]]:
        """(event, finding key) of everything that it tells."""
        items = self.body["items"] if self.body["event"] == "digest" else [self.body]
        return [(item["event"], item["finding"]["key"]) for item in items]


class Receiver:
    """Listens while the block runs; `messages` is in the order of arrival. Answers take `answer_s`."""

    def __init__(self, status: int = 200, answer_s: float = 0.0) -> None:
        self.status = status
        self.messages: list[Message] = []
        ended = self._ended = threading.Event()
        receiver = self

        class Handler(BaseHTTPRequestHandler):
            def do_POST(self) -> None:
                content = self.rfile.read(int(self.headers["Content-Length"]))
                receiver.messages.append(Message(self.headers["Idempotency-Key"], json.loads(content)))
                ended.wait(answer_s)
                self.send_response(receiver.status)
                self.send_header("Content-Length", "0")
                with suppress(OSError):  # a killed server does not read its answer
                    self.end_headers()

            def log_message(self, format: str, *args: object) -> None:
                """Says nothing."""

        self._server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self._server.daemon_threads = True
        self._thread = threading.Thread(target=self._server.serve_forever, args=(0.05,), daemon=True)
        self.url = f"http://127.0.0.1:{self._server.server_port}/hook/T0PSECRETT0KEN"

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, _: TracebackType | None) -> None:
        self._ended.set()
        self._server.shutdown()
        self._server.server_close()
        self._thread.join()
