"""A server with a lease: it waits, serves while it has the lease, and waits again once it has lost it."""

from __future__ import annotations

import signal
import socket
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING

from gpuwatch.commands.shared import print_stderr

if TYPE_CHECKING:
    from gpuwatch.service.holding import Holding
    from gpuwatch.service.standby import Standby

BACKLOG = 2048
STOP_S = 10.0


def take_turns(
    standby: Standby,
    serve_with: Callable[[Holding, socket.socket], None],
    bound: socket.socket,
    host: str,
    port: int,
) -> None:
    """Waits, and calls `serve_with` each time that this process has the lease, until it is asked to stop.

    Raises what `serve_with` raises, and UsageError for a directory that cannot become that of the cell.
    """
    from gpuwatch.core import logs

    logs.set_up()
    standby.migrate()
    with _asked_to_stop() as stopping:
        bound.listen(BACKLOG)
        while (holding := _waited(standby, stopping, bound, host, port)) is not None:
            try:
                # The web server closes its socket at its end; senders that come meanwhile wait for the next one.
                serve_with(holding, bound.dup())
            finally:
                holding.stop()
            if not holding.lost:
                break
            print_stderr("gpuwatch: lost the lease; waits for it again")
    standby.leases.close()


def _waited(standby: Standby, stopping: threading.Event, bound: socket.socket, host: str, port: int) -> Holding | None:
    """The lease. Meanwhile data are passed on to its holder, and every other request is answered with the address."""
    from gpuwatch.api.waiting import waiting
    from gpuwatch.service import web
    from gpuwatch.service.routing import routing_meanwhile

    routing = routing_meanwhile(standby.leases)
    server = web.server(waiting(standby.refusal, routing), host, port)
    thread = threading.Thread(target=server.run, kwargs={"sockets": [bound.dup()]}, name="waiting", daemon=True)
    thread.start()
    try:
        return standby.wait(stopping)
    finally:
        server.should_exit = True
        thread.join(STOP_S)
        routing.close()


@contextmanager
def _asked_to_stop() -> Iterator[threading.Event]:
    """Set by SIGTERM and SIGINT while the process waits; a server that runs handles them itself."""
    stopping = threading.Event()
    before = {each: signal.signal(each, lambda *_: stopping.set()) for each in (signal.SIGTERM, signal.SIGINT)}
    try:
        yield stopping
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
