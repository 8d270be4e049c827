"""The agent's two pages over HTTP: /metrics and /health, few requests at once, small ones only."""

from __future__ import annotations

import ipaddress
import socket
import threading
from collections.abc import Callable
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

from gpuwatch.core.errors import SourceUnreachable

MAX_CONNECTIONS = 16
"""More at once are refused: readers are few, and each gets the page that is there."""
WAIT_S = 10.0
"""How long a connection may say nothing."""
TEXT = "text/plain; version=0.0.4; charset=utf-8"
STOP_S = 5.0

Page = Callable[[], tuple[bytes, str]]


def only_here(host: str) -> bool:
    """Whether an address is reachable from this machine only."""
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return host == "localhost"


class Server:
    """Answers GET and HEAD in threads of its own."""

    def __init__(self, bound: ThreadingHTTPServer) -> None:
        self._bound = bound
        host, port = bound.server_address[0], bound.server_address[1]
        shown = f"[{host!s}]" if ":" in str(host) else str(host)
        self.url = f"http://{shown}:{port}"
        self._thread = threading.Thread(target=bound.serve_forever, name="http", daemon=True)

    def start(self) -> None:
        """Starts to answer."""
        self._thread.start()

    def stop(self) -> None:
        """Ends: no new requests; those at work are left to end by themselves."""
        if self._thread.is_alive():
            self._bound.shutdown()
            self._thread.join(STOP_S)
        self._bound.server_close()


def server(page: Page, host: str, port: int) -> Server:
    """A server of `page`, bound and listening. Raises SourceUnreachable where the address cannot be had."""

    class Answer(_Answer):
        pages = staticmethod(page)

    try:
        family = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)[0][0]
        return Server(_bounded(family)((host, port), Answer))
    except OSError as error:
        raise SourceUnreachable(
            f"agent: cannot listen on {host} port {port}: {error.strerror or error}; give another --host or --port "
            "(dcgm-exporter listens on 9400: where it runs, no agent is needed)"
        ) from error


def _bounded(family: int) -> type[ThreadingHTTPServer]:
    free = threading.BoundedSemaphore(MAX_CONNECTIONS)

    class Bounded(ThreadingHTTPServer):
        address_family = family
        daemon_threads = True
        block_on_close = False
        request_queue_size = MAX_CONNECTIONS

        def process_request(self, request: Any, client_address: Any) -> None:
            if not free.acquire(blocking=False):
                self.shutdown_request(request)
                return
            try:
                super().process_request(request, client_address)
            except BaseException:
                free.release()
                raise

        def process_request_thread(self, request: Any, client_address: Any) -> None:
            try:
                super().process_request_thread(request, client_address)
            finally:
                free.release()

        def handle_error(self, request: Any, client_address: Any) -> None:
            """A client that went away is no news."""

    return Bounded


class _Answer(BaseHTTPRequestHandler):
    pages: Page
    timeout = WAIT_S
    protocol_version = "HTTP/1.1"
    server_version = "gpuwatch-agent"
    sys_version = ""

    def do_GET(self) -> None:
        """The page that is asked for; 503 with the reason where there is no fresh reading."""
        path = self.path.partition("?")[0]
        body, lack = self.pages()
        if path == "/metrics":
            self._say(503 if lack else 200, f"{lack}\n".encode() if lack else body)
        elif path == "/health":
            self._say(503 if lack else 200, (f"{lack}\n" if lack else "ok\n").encode())
        elif path == "/":
            self._say(200, b"gpuwatch agent: /metrics /health\n")
        else:
            self._say(404, b"not found: /metrics or /health\n")

    do_HEAD = do_GET

    def _say(self, status: int, body: bytes) -> None:
        self.send_response(status)
        self.send_header("Content-Type", TEXT)
        self.send_header("Content-Length", str(len(body)))
        self.send_header("Connection", "close")
        self.end_headers()
        if self.command != "HEAD":
            self.wfile.write(body)

    def log_message(self, format: str, *args: object) -> None:
        """Requests are not logged: every scrape would be a line."""
