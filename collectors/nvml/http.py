"""Serves the agent's pages /metrics and /health over HTTP, with limits on connections and time."""

from __future__ import annotations

import ipaddress
import socket
import threading
from collections.abc import Callable
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

from gpuwatch.core.errors import SourceUnreachable

MAX_CONNECTIONS = 16
"""The most concurrent connections."""
IDLE_TIMEOUT_S = 10.0
"""How long a connection may be idle."""
TEXT = "text/plain; version=0.0.4; charset=utf-8"
STOP_S = 5.0

Page = Callable[[], tuple[bytes, str]]


def is_loopback(host: str) -> bool:
    """Whether an address can only be reached from this machine."""
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return host == "localhost"


class Server:
    """Serves GET and HEAD in its own threads."""

    def __init__(self, bound: ThreadingHTTPServer) -> None:
        self._bound = bound
        host, port = bound.server_address[0], bound.server_address[1]
        shown = f"[{host!s}]" if ":" in str(host) else str(host)
        self.url = f"http://{shown}:{port}"
        self._thread = threading.Thread(target=bound.serve_forever, name="http", daemon=True)

    def start(self) -> None:
        """Starts serving."""
        self._thread.start()

    def stop(self) -> None:
        """Stops accepting requests; those in progress are completed."""
        if self._thread.is_alive():
            self._bound.shutdown()
            self._thread.join(STOP_S)
        self._bound.server_close()


def server(page: Page, host: str, port: int) -> Server:
    """A server of `page`, bound and listening. Raises SourceUnreachable if the address is not available."""

    class Handler(_Handler):
        pages = staticmethod(page)

    try:
        family = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)[0][0]
        return Server(_bounded(family)((host, port), Handler))
    except OSError as error:
        raise SourceUnreachable(
            f"agent: cannot listen on {host} port {port}: {error.strerror or error}; choose another --host or --port "
            "(dcgm-exporter also uses 9400; a node that runs it does not need the agent)"
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
            """A client that disconnected is not logged."""

    return Bounded


class _Handler(BaseHTTPRequestHandler):
    pages: Page
    timeout = IDLE_TIMEOUT_S
    protocol_version = "HTTP/1.1"
    server_version = "gpuwatch-agent"
    sys_version = ""

    def do_GET(self) -> None:
        """Sends the requested page, or 503 with the reason if there is no current reading."""
        path = self.path.partition("?")[0]
        body, error = self.pages()
        if path == "/metrics":
            self._send(503 if error else 200, f"{error}\n".encode() if error else body)
        elif path == "/health":
            self._send(503 if error else 200, (f"{error}\n" if error else "ok\n").encode())
        elif path == "/":
            self._send(200, b"gpuwatch agent: /metrics /health\n")
        else:
            self._send(404, b"not found: /metrics or /health\n")

    do_HEAD = do_GET

    def _send(self, status: int, body: bytes) -> None:
        self.send_response(status)
        self.send_header("Content-Type", TEXT)
        self.send_header("Content-Length", str(len(body)))
        self.send_header("Connection", "close")
        self.end_headers()
        if self.command != "HEAD":
            self.wfile.write(body)

    def log_message(self, format: str, *args: object) -> None:
        """Requests are not logged, because every scrape would be a line."""
