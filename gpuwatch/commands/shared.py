"""Shared by the commands: options, opening a data directory, printing, progress."""

from __future__ import annotations

import inspect
import os
import shlex
import shutil
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from functools import wraps
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from gpuwatch.core.database_url import has_password
from gpuwatch.core.errors import StoreError, UnreadableInput
from gpuwatch.output.listing import Listing, choose, visible
from gpuwatch.output.terminal import as_text, terminal_width
from gpuwatch.store import lockfile
from gpuwatch.store.private_files import users_umask

if TYPE_CHECKING:
    from gpuwatch.settings import Settings
    from gpuwatch.state import State
    from gpuwatch.store.database import Store

MAX_NOTES = 1000
"""Most lines that one import prints on stderr."""
DEFAULT_DATA = Path("gpuwatch-data")
STATE_VARIABLE = "GPUWATCH_STATE_URL"

DataOption = Annotated[Path, typer.Option("--data", envvar="GPUWATCH_DATA", metavar="DIR", help="The data directory.")]
StateOption = Annotated[
    str | None,
    typer.Option(
        "--state",
        metavar="URL",
        help="PostgreSQL database of the state; default: $GPUWATCH_STATE_URL, state_url, or a file in --data.",
    ),
]
PaperOption = Annotated[
    str | None,
    typer.Option("--paper", metavar="a4|letter", help="Paper size of the PDF; default: setting report_paper."),
]
FormatOption = Annotated[
    str | None,
    typer.Option("--format", metavar="table|json|csv", help="Default: table on a terminal, json when piped."),
]
ConfigOption = Annotated[
    Path | None,
    typer.Option("--config", metavar="FILE", help="Settings file, e.g. gpuwatch.toml; see docs/reference/settings.md."),
]
NewStateOption = Annotated[
    bool,
    typer.Option(
        "--new-state", help="Go on with a new or another state (tokens, prices, policies) if the store's is lost."
    ),
]
NewStoreOption = Annotated[
    bool,
    typer.Option(
        "--new-store", help="Go on with a new or another store (measurements, ledger) if the state's is lost."
    ),
]


def now_us(context: typer.Context) -> int:
    """The current time, from the command line's clock."""
    clock: Callable[[], int] = context.find_root().obj
    return clock()


def actor() -> str:
    """The user at the terminal, for the audit log."""
    from gpuwatch.state.actor import typed_by, user

    return typed_by(user())


def program() -> str:
    """The command as it was started, for lines to paste; with its path if it is not on PATH."""
    path = Path(sys.argv[0])
    if path.name == "__main__.py":
        return f"{shlex.quote(sys.executable)} -m gpuwatch"
    found = shutil.which("gpuwatch")
    if path.name != "gpuwatch" or (found is not None and path.exists() and os.path.samefile(found, path)):
        return "gpuwatch"
    return shlex.quote(sys.argv[0])


_state_url: ContextVar[str | None] = ContextVar("state_url", default=None)


def with_state(function: Callable[..., Any]) -> Callable[..., Any]:
    """The function of a command that takes --data, with the option --state: both say where its data is."""
    if "data" not in inspect.signature(function).parameters:
        return function
    signature = inspect.signature(function, eval_str=True)

    @wraps(function)
    def run(*arguments: Any, state_url: str | None = None, **options: Any) -> Any:
        if state_url is not None and has_password(state_url):
            print_stderr(
                "--state: other users of this machine see the password in its URL; use GPUWATCH_STATE_URL or "
                "state_password_file"
            )
        before = _state_url.set(state_url)
        try:
            return function(*arguments, **options)
        finally:
            _state_url.reset(before)

    option = inspect.Parameter("state_url", inspect.Parameter.KEYWORD_ONLY, default=None, annotation=StateOption)
    parameters = [*signature.parameters.values(), option]
    run.__annotations__ = {each.name: each.annotation for each in parameters}
    run.__dict__["__signature__"] = signature.replace(parameters=parameters)
    return run


def environment() -> dict[str, str]:
    """The environment variables, with --state in place of GPUWATCH_STATE_URL."""
    chosen = _state_url.get()
    return dict(os.environ) if chosen is None else {**os.environ, STATE_VARIABLE: chosen}


def settings_of(config: Path | None) -> Settings:
    """Settings from the file, the environment and --state."""
    from gpuwatch.settings import load_settings

    return load_settings(config, environment())


@contextmanager
def opened(
    data: Path,
    config: Path | None = None,
    create: bool = False,
    instead: str = "stop it, or use its API",
    new_state: bool = False,
    new_store: bool = False,
    embedded: bool = False,
) -> Iterator[tuple[Store, State, Settings]]:
    """Store, state and settings of a data directory. Raises StoreError if there is none and `create` is not set, if the
    store or the state of a pair is missing or another one, or if a server holds it; `instead` is the advice for that case.
    `embedded`: a directory of its own, whose state is a file in it whatever the settings are.
    """
    from gpuwatch.policy.repository import set_ownership_default
    from gpuwatch.settings import in_directory
    from gpuwatch.state.pairing import check_store, open_state_of
    from gpuwatch.state.server import Server
    from gpuwatch.store.database import Store
    from gpuwatch.store.private_files import private_umask

    settings = in_directory(settings_of(config)) if embedded else settings_of(config)
    server = Server.of(settings)
    if data.exists() and not data.is_dir():
        raise UnreadableInput(f"--data {data}: is a file; name a directory")
    with private_umask():
        check_store(data, new_store, server)
        try:
            store = Store.open(
                data,
                memory_limit=settings.memory_limit,
                threads=settings.threads,
                temp_directory=settings.temp_directory,
                create=create,
            )
        except StoreError as error:
            if (note := lockfile.find(data)) is None:
                raise
            raise StoreError(f"{data} is in use by process {note.pid}, which serves {note.url}: {instead}") from error
        with store, open_state_of(store, data, new_state, new_store, server) as state:
            if settings.detectors_dir is not None:
                from gpuwatch.findings import custom_rules

                custom_rules.load(settings.detectors_dir, store)
            set_ownership_default(state, settings.ownership_default, actor(), time.time_ns() // 1000)
            yield store, state, settings


@contextmanager
def state_only(data: Path, config: Path | None = None) -> Iterator[State]:
    """The state without the store, which a server may hold. Raises StoreError if it is missing or another one."""
    from gpuwatch.state.pairing import open_state_only
    from gpuwatch.state.server import Server
    from gpuwatch.store.private_files import private_umask

    with private_umask(), open_state_only(data, Server.of(settings_of(config))) as state:
        yield state


def moment_us(text: str | None, option: str) -> int | None:
    """Microseconds of an RFC 3339 option. Raises UsageError."""
    from gpuwatch.core.clock import parse_rfc3339
    from gpuwatch.core.errors import UsageError

    if text is None:
        return None
    try:
        return parse_rfc3339(text)
    except ValueError as error:
        raise UsageError(f"{option} {text!r}: not a time; use RFC 3339, e.g. 2026-11-21T00:00:00Z") from error


def names(values: Sequence[str]) -> list[str]:
    """`--by team,user --by job` as a list without duplicates."""
    return list(dict.fromkeys(part.strip() for value in values for part in value.split(",") if part.strip()))


def show(listing: Listing, form: str | None, out: Path | None = None) -> None:
    """Prints a listing, or writes it to a file."""
    chosen = choose(form, sys.stdout.isatty() and out is None)
    write(as_text(listing, chosen, terminal_width(sys.stdout)), out)


def write(text: str, out: Path | None = None) -> None:
    """Writes to stdout or to a file. Raises UnreadableInput if the file cannot be written."""
    if out is None:
        sys.stdout.write(text)
        sys.stdout.flush()
        return
    try:
        in_folder(out)
        with users_umask():
            out.write_text(text, "utf-8")
    except OSError as error:
        raise UnreadableInput(f"--out {out}: {error.strerror or error}") from error


def in_folder(out: Path) -> None:
    """Raises UnreadableInput if the folder of an output file does not exist, e.g. for a mistyped path."""
    if not out.parent.is_dir():
        raise UnreadableInput(f"--out {out}: the folder {out.parent} does not exist; create it, or use another file")


def print_stderr(line: str) -> None:
    """Prints one line on stderr."""
    typer.echo(visible(line), err=True)


def file_content(file: Path, most: int) -> bytes:
    """The bytes of a file. Raises UnreadableInput if it cannot be read or is larger than `most`."""
    try:
        if file.stat().st_size > most:
            raise UnreadableInput(f"{file}: larger than {most} bytes")
        return file.read_bytes()
    except OSError as error:
        raise UnreadableInput(f"{file}: {error.strerror or error}") from error
