"""The command serve."""

from __future__ import annotations

import importlib
import logging
import os
import shlex
import signal
import socket
from collections.abc import Callable, Mapping
from contextlib import closing
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from gpuwatch.commands.registry import command
from gpuwatch.commands.reloading import Again
from gpuwatch.commands.shared import (
    DEFAULT_DATA,
    ConfigOption,
    DataOption,
    NewStateOption,
    NewStoreOption,
    environment,
    print_stderr,
    program,
    write,
)
from gpuwatch.core.errors import SourceUnreachable, StoreError, UnreadableInput, UsageError

if TYPE_CHECKING:
    from gpuwatch.service.config import Plan
    from gpuwatch.service.service import Service

HOST, PORT = "127.0.0.1", 8765
BACKLOG = 2048
SOURCES_SHOWN = 1_000
"""Most sources that --check lists."""
HostOption = Annotated[
    str, typer.Option("--host", metavar="H", help="Address to listen on; other than 127.0.0.1 requires a token.")
]
PortOption = Annotated[
    int, typer.Option("--port", metavar="P", min=0, max=65535, help="Port to listen on; 0 picks a free one.")
]
log = logging.getLogger(__name__)


def serve(
    context: typer.Context,
    data: DataOption = DEFAULT_DATA,
    config: ConfigOption = None,
    host: HostOption = HOST,
    port: PortOption = PORT,
    check: Annotated[
        bool, typer.Option("--check", help="Check the configuration, print what would run, and exit.")
    ] = False,
    new_state: NewStateOption = False,
    new_store: NewStoreOption = False,
    role: Annotated[
        str, typer.Option("--role", metavar="all|cell|api|lead", help="The part of the work that this process does.")
    ] = "all",
) -> None:
    """Run the service. Collectors, analysis, alerts, API and pages run in one process; SIGHUP reloads --config."""
    if data.exists() and not data.is_dir():
        raise UnreadableInput(f"--data {data}: is a file; name a directory")
    # Handle SIGHUP before any slow step, because by default it ends the process. The reload runs once all is started.
    again = Again()
    before = signal.signal(signal.SIGHUP, lambda *_: again.ask())
    try:
        from gpuwatch.service.config import load
        from gpuwatch.service.roles import part_of, role_of

        part = role_of(role)
        plan = part_of(part, load(config, environment()))
        if check:
            write(described(plan))
            return
        from gpuwatch.service.holding import ALWAYS, Always
        from gpuwatch.service.service import Service
        from gpuwatch.service.standby import Standby, address_of, leases_of
        from gpuwatch.service.uptime import machine_uptime
        from gpuwatch.store.private_files import private_umask

        # Before the store is opened, which takes seconds: a port in use is named at once.
        with closing(bind(host, port)) as bound, private_umask():
            clock = context.find_root().obj

            def serve_with(holding: Always, listening: socket.socket) -> None:
                service = Service.open(
                    data,
                    plan.settings,
                    plan,
                    now_us=clock,
                    new_state=new_state,
                    new_store=new_store,
                    uptime=machine_uptime(),
                    role=part,
                    holding=holding,
                )
                again.call = lambda: service.reload(lambda: read_again(config, environment()))
                run(service, host, port, lambda url: write(f"gpuwatch listening on {url}\n"), listening, reloader=again)

            leases = leases_of(part, plan, address_of(host, bound.getsockname()[1]))
            if leases is None:
                serve_with(ALWAYS, bound)
                return
            from gpuwatch.commands.fleet.leased import take_turns

            take_turns(Standby(leases, plan, data, clock, new_store), serve_with, bound, host, port)
    finally:
        # While shutting down, ignore SIGHUP: there is nothing to reload.
        signal.signal(signal.SIGHUP, signal.SIG_IGN if before == signal.SIG_DFL else before)


def read_again(config: Path | None, environ: Mapping[str, str]) -> Plan:
    """The reloaded configuration.

    Raises as plan.load does, and UsageError unless it is a regular file: a pipe would be empty on the second read.
    """
    from gpuwatch.service.config import load

    if config is not None and config.exists() and not (config.is_file() or config.is_dir()):
        raise UsageError(f"{config}: not a regular file, so it cannot be reloaded; restart the service")
    return load(config, environ)


def described(plan: Plan) -> str:
    """What the configuration would run, one line each: changed settings, sources, channels. Never shows secrets."""
    from gpuwatch.settings import shown as without_password
    from gpuwatch.settings import table

    lines = [
        f"setting  {name} = {without_password(plan.settings, name)!r}"
        for name, default, _ in table()
        if getattr(plan.settings, name) != default
    ]
    shown = plan.live[:SOURCES_SHOWN]
    lines += [f"source   {s.name}  (cluster {s.cluster}, every {s.interval_s:g} s)" for s in shown]
    if len(plan.live) > len(shown):
        lines.append(f"         and {len(plan.live) - len(shown)} more sources")
    lines += [f"channel  {c.name}  ({c.kind}, from {c.severity_min})" for c in plan.alerts.channels]
    lines += (
        [f"lake     {plan.lake.shown()}  ({plan.lake.cell and f'cell {plan.lake.cell}, '}data in {plan.lake.data})"]
        if plan.lake
        else []
    )
    counts = (
        f"{count} {noun}{'' if count == 1 else 's'}"
        for count, noun in ((len(plan.live), "source"), (len(plan.alerts.channels), "channel"))
    )
    lines.append(f"The configuration is valid: {', '.join(counts)}.")
    return "\n".join(lines) + "\n"


def run(
    service: Service,
    host: str,
    port: int,
    ready: Callable[[str], None],
    bound: socket.socket | None = None,
    reloader: Again | None = None,
) -> None:
    """Serves until SIGINT or SIGTERM, then stops requests, sources, writer and store in this order.

    Calls `ready(url)` once it listens. `bound` is a socket from `bind`, closed at the end. `reloader` runs as long as
    the service does.

    Raises SourceUnreachable if the address cannot be bound, UsageError for a public address without any token, and
    StoreError if the store failed and the process must be restarted.
    """
    from gpuwatch.api.app import create_app
    from gpuwatch.core import logs
    from gpuwatch.service import web
    from gpuwatch.store import lockfile

    try:
        if not web.is_loopback(host):
            _need_token(service, host)
        listening = bound or bind(host, port)
        _listen(listening, host, port)
    except BaseException:
        service.stop()
        raise
    logs.set_up()
    web.raise_file_limit()
    at = listening.getsockname()[1]
    url = lockfile.url_of(host, at)
    # When bound to all addresses, the public one is unknown, so messages have no link.
    service.own_url = "" if host in lockfile.ANYWHERE else url
    app = create_app(service, hosts=() if host in lockfile.ANYWHERE else (host,))
    if service.role.pages:
        importlib.import_module("gpuwatch.dashboards.app").mount(app)
    server = web.server(app, host, at)
    broken: list[str] = []

    def give_up(why: str) -> None:
        broken.append(why)
        server.should_exit = True

    def stop_requested(*_: object) -> None:
        server.should_exit = True

    service.on_fatal = give_up
    service.holding.on_lost = stop_requested
    if service.holding.lost:
        stop_requested()

    # Signals before uvicorn handles them, and those it passes on at its end, must still run the cleanup below.
    before = {number: signal.signal(number, stop_requested) for number in (signal.SIGTERM, signal.SIGINT)}
    try:
        service.start()
        if reloader is not None:
            reloader.start()
        if service.directory is not None:
            lockfile.leave(service.directory, lockfile.Note(os.getpid(), url, service.local_secret))
        log.info("serving", extra={"url": url, "data": str(service.directory)})
        ready(url)
        server.run(sockets=[listening])
        print_stderr("gpuwatch: stopping")
    finally:
        if reloader is not None:
            reloader.stop()
        if service.directory is not None:
            lockfile.take_away(service.directory)
        service.stop()
        listening.close()
        for number, handler in before.items():
            signal.signal(number, handler)
    if broken:
        raise StoreError(f"{broken[0]}; acknowledged data is safe. Restart the service")


def _need_token(service: Service, host: str) -> None:
    from gpuwatch.state.tokens import Tokens

    if not any(token.valid_at(service.now_us()) for token in Tokens(service.state).list()):
        where = "" if service.directory is None else f" --data {shlex.quote(str(service.directory))}"
        raise UsageError(
            f"--host {host}: this address is reachable from other machines, but no token exists. First run "
            f"{program()} token create --scope admin{where}, or bind to 127.0.0.1"
        )


def bind(host: str, port: int) -> socket.socket:
    """A bound socket that does not listen yet. Raises SourceUnreachable if it cannot be bound."""
    try:
        family, kind, protocol, _, address = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)[0]
        listening = socket.socket(family, kind, protocol)
        listening.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        listening.bind(address)
    except OSError as error:
        raise _taken(host, port, error) from error
    return listening


def _listen(listening: socket.socket, host: str, port: int) -> None:
    try:
        listening.listen(BACKLOG)
    except OSError as error:
        raise _taken(host, port, error) from error


def _taken(host: str, port: int, error: OSError) -> SourceUnreachable:
    return SourceUnreachable(
        f"cannot listen on {host} port {port}: {error.strerror or error}; use another --host or --port"
    )


command("serve", serve, place=20)
