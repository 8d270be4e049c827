"""The `gpuwatch` command: parses the command line, runs the command and reports errors."""

from __future__ import annotations

import atexit
import os
import sys
import threading
import time
from collections.abc import Sequence
from contextlib import suppress
from importlib.abc import MetaPathFinder
from typing import Annotated, Any, NoReturn

import typer
from typer.core import TyperGroup

from gpuwatch.commands.examples import add_examples
from gpuwatch.commands.registry import add_all
from gpuwatch.commands.shared import print_stderr
from gpuwatch.core.errors import GpuwatchError

INTERRUPTED = 130
BROKEN_PIPE = 141
"""The exit code that a shell reports for a program ended by SIGPIPE."""
USAGE = 2
_ClickException: type[Any] = typer.BadParameter.__mro__[2]
"""Base of the parser's errors. Newer Typer versions bundle their own click, so it is not imported by name."""


class _Commands(TyperGroup):
    """Prints one of our errors in one line and exits with its code."""

    def invoke(self, ctx: Any) -> Any:
        try:
            return super().invoke(ctx)
        except GpuwatchError as error:
            print_stderr(f"gpuwatch: {' '.join(str(error).split())}")
            raise typer.Exit(error.exit_code) from error
        except BrokenPipeError as error:
            # The reader closed the pipe. Flushing the rest at exit must not raise again.
            os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
            raise typer.Exit(BROKEN_PIPE) from error


app = typer.Typer(
    cls=_Commands,
    help="Shows where a fleet's GPU time and money went.",
    rich_markup_mode=None,
    pretty_exceptions_enable=False,
    add_completion=True,
    context_settings={"help_option_names": ["--help", "-h"]},
)
add_all(app)
add_examples(app)


def _now_us() -> int:
    return time.time_ns() // 1000


@app.callback(invoke_without_command=True)
def root(
    context: typer.Context, version: Annotated[bool, typer.Option("--version", help="Print the version.")] = False
) -> None:
    """Shows where a fleet's GPU time and money went."""
    context.obj = _now_us
    if version:
        from importlib.metadata import version as installed

        typer.echo(f"gpuwatch {installed('gpuwatch')}")
        raise typer.Exit
    if context.invoked_subcommand is None:
        typer.echo(context.get_help())


def run(arguments: Sequence[str]) -> int:
    """Runs one command line and returns its exit code. Expected errors never show a traceback."""
    try:
        code = app(list(arguments), standalone_mode=False, prog_name="gpuwatch")
    except _ClickException as error:
        text = str(error.format_message())
        command = next((a for a in arguments if not a.startswith("-")), "")
        known = [c.name for c in app.registered_commands] + [g.name for g in app.registered_groups]
        where = f"gpuwatch {command} --help" if command in known else "gpuwatch --help"
        print_stderr(f"gpuwatch: {' '.join(text.split())} (see {where})")
        return USAGE
    except (typer.Abort, KeyboardInterrupt):
        return _interrupted()
    except RuntimeError as error:
        from gpuwatch.store.connection import was_interrupted

        if not was_interrupted(error):  # Ctrl-C during a query outside a transaction
            raise
        return _interrupted()
    if code == INTERRUPTED:  # Typer handled the Ctrl-C
        return _interrupted()
    return code if isinstance(code, int) else 0


def _interrupted() -> int:
    print_stderr("gpuwatch: interrupted; run the same command again to continue")
    return INTERRUPTED


class NoPandas(MetaPathFinder):
    """Imports as if pandas were not installed.

    pyarrow loads it for the first table that is made of Python values: .4 s and 50 MB that no command has a use for.
    """

    def find_spec(self, fullname: str, path: object = None, target: object = None) -> None:
        """Raises ModuleNotFoundError for pandas; leaves everything else to the others."""
        if fullname == "pandas":
            raise ModuleNotFoundError("gpuwatch uses no pandas", name=fullname)


def main() -> None:
    """Entry point: exits with the code of the command."""
    sys.meta_path.insert(0, NoPandas())
    # gpuwatch has no plug-ins for pydantic. Looking for some reads the metadata of every installed package.
    os.environ.setdefault("PYDANTIC_DISABLE_PLUGINS", "__all__")
    # Matrices of a forecast are small: a second thread of OpenBLAS costs five times the CPU time and saves none.
    os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")
    _leave(run(sys.argv[1:]))


def _leave(code: int) -> NoReturn:
    """Ends the process as Python does, but without taking its modules apart: that is a sixth of the CPU time of `gpuwatch findings`."""
    if threading.active_count() == 1:  # or Python waits for the others
        with suppress(OSError, ValueError):  # output that cannot be written, which Python reports
            sys.stdout.flush()
            sys.stderr.flush()
            atexit._run_exitfuncs()
            sys.stdout.flush()
            sys.stderr.flush()
            os._exit(code)
    sys.exit(code)
