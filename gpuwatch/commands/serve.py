"""Commands of the running service: serve and backup."""

from __future__ import annotations

import importlib
import logging
import os
import shlex
import signal
import socket
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from gpuwatch.commands.shared import DEFAULT_DATA, ConfigOption, DataOption, opened, program, say, write
from gpuwatch.errors import SourceUnreachable, StoreError, UnreadableInput, UsageError

if TYPE_CHECKING:
    from gpuwatch.service import Service
    from gpuwatch.settings import Settings

SETTINGS = "settings: "
"""How the sentence about mistakes in gpuwatch.toml begins."""
HOST, PORT = "127.0.0.1", 8765
BACKLOG = 2048
HostOption = Annotated[str, typer.Option("--host", metavar="H", help="Beyond 127.0.0.1 a token must exist.")]
PortOption = Annotated[int, typer.Option("--port", metavar="P", min=0, max=65535, help="0: any free one.")]
log = logging.getLogger(__name__)


def serve(
    context: typer.Context,
    data: DataOption = DEFAULT_DATA,
    config: ConfigOption = None,
    host: HostOption = HOST,
    port: PortOption = PORT,
) -> None:
    """Collectors, analyzer, alerts, API and pages in one process, until it is stopped."""
    from gpuwatch import alerting
    from gpuwatch.collect import configured
    from gpuwatch.service import Service
    from gpuwatch.settings import load_tables

    if data.exists() and not data.is_dir():
        raise UnreadableInput(f"--data {data}: is a file; name a directory")
    problems: list[str] = []
    settings = None
    try:
        settings = settings_with_tables(config)
    except UsageError as error:
        problems.append(str(error).removeprefix(SETTINGS))
    tables = load_tables(config, known_tables())
    for check in (configured, alerting.configured):
        try:
            check(tables)
        except UsageError as error:
            problems.append(str(error).removeprefix(SETTINGS))
    if settings is None or problems:
        raise UsageError(SETTINGS + "; ".join(problems))
    service = Service.open(data, settings, tables, now_us=context.find_root().obj)
    run(service, host, port, lambda url: write(f"gpuwatch serves {url}\n"))


def backup(
    data: DataOption = DEFAULT_DATA,
    config: ConfigOption = None,
    target: Annotated[Path, typer.Argument(metavar="DIR", help="An empty or new directory.")] = Path("gpuwatch-backup"),
) -> None:
    """A consistent copy of a data directory, also while it is served; to restore, serve the copy."""
    from gpuwatch import in_use
    from gpuwatch.backup import backup as copy
    from gpuwatch.commands.remote import post

    note = in_use.find(data)
    if note is not None:
        answer = post(note, "/api/v1/backup", {"directory": str(target.absolute())})
        total = int(answer["telemetry_bytes"]) + int(answer["state_bytes"])
    else:
        with opened(data, config) as (store, state, _):
            done = copy(store, state, target)
        total = done.telemetry_bytes + done.state_bytes
    write(f"{target}: {total} bytes; to restore, use it as --data\n")


def known_tables() -> tuple[str, ...]:
    """Tables of gpuwatch.toml that are not settings."""
    from gpuwatch.registry import live_kinds

    return (*live_kinds(), "alerts", "channel")


def settings_with_tables(config: Path | None) -> Settings:
    """Settings of a file that may configure sources and channels too."""
    from gpuwatch.settings import load_settings

    return load_settings(config, os.environ, known_tables())


def run(
    service: Service, host: str, port: int, ready: Callable[[str], None], bound: socket.socket | None = None
) -> None:
    """Serves until SIGINT or SIGTERM, then ends in order: requests, sources, writer, store. `ready(url)` is told where.

    `bound` is a socket that `bind` gave before; it is closed at the end.

    Raises SourceUnreachable for an address that cannot be bound, UsageError for one beyond this machine without a token,
    StoreError when the store broke: then the process must be started again.
    """
    from gpuwatch import in_use, logs, web
    from gpuwatch.api.app import create_app

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
    url = in_use.url_of(host, at)
    # Bound to every address, it does not know the one that others use: then messages have no link.
    service.base_url = service.settings.public_url or ("" if host in in_use.ANYWHERE else url)
    app = create_app(service, hosts=() if host in in_use.ANYWHERE else (host,))
    importlib.import_module("gpuwatch.dashboards.app").mount(app)
    server = web.server(app, host, at)
    broken: list[str] = []

    def give_up(why: str) -> None:
        broken.append(why)
        server.should_exit = True

    service.on_fatal = give_up

    def asked(*_: object) -> None:
        server.should_exit = True

    # Before uvicorn listens to signals, and when it hands them on at its end, what is below must still run.
    before = {number: signal.signal(number, asked) for number in (signal.SIGTERM, signal.SIGINT)}
    try:
        service.start()
        if service.directory is not None:
            in_use.leave(service.directory, in_use.Note(os.getpid(), url, service.local_secret))
        log.info("serving", extra={"url": url, "data": str(service.directory)})
        ready(url)
        server.run(sockets=[listening])
        say("gpuwatch: stopping")
    finally:
        if service.directory is not None:
            in_use.take_away(service.directory)
        service.stop()
        listening.close()
        for number, handler in before.items():
            signal.signal(number, handler)
    if broken:
        raise StoreError(f"{broken[0]}; what was acknowledged is kept: start the service again")


def _need_token(service: Service, host: str) -> None:
    from gpuwatch.state.tokens import Tokens

    if not any(token.valid_at(service.now_us()) for token in Tokens(service.state).list()):
        where = "" if service.directory is None else f" --data {shlex.quote(str(service.directory))}"
        raise UsageError(
            f"--host {host}: reachable from other machines, and no token exists: first run "
            f"{program()} token create --scope admin{where}, or bind to 127.0.0.1"
        )


def bind(host: str, port: int) -> socket.socket:
    """An address taken, not listened at yet. Raises SourceUnreachable where it cannot be."""
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
        f"cannot listen on {host} port {port}: {error.strerror or error}; give another --host or --port"
    )
