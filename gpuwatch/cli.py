"""The `gpuwatch` command: wiring only."""

from __future__ import annotations

import os
import sys
import time
from collections.abc import Sequence
from typing import Annotated, Any

import typer
from typer.core import TyperGroup

from gpuwatch.commands.registry import add_all
from gpuwatch.commands.shared import say
from gpuwatch.core.errors import GpuwatchError

INTERRUPTED = 130
QUERY_INTERRUPTED = "Query interrupted"
"""What a Ctrl-C is to who waits for a query of the store outside of a transaction."""
BROKEN_PIPE = 141
"""What a shell reports of a program that SIGPIPE ended."""
USAGE = 2
_ClickException: type[Any] = typer.BadParameter.__mro__[2]
"""Base of the parser's own errors; newer Typers bring their own click, so it is not imported by name."""


class _Commands(TyperGroup):
    """Says an error of ours in one line and exits with its code."""

    def invoke(self, ctx: Any) -> Any:
        try:
            return super().invoke(ctx)
        except GpuwatchError as error:
            say(f"gpuwatch: {' '.join(str(error).split())}")
            raise typer.Exit(error.exit_code) from error
        except BrokenPipeError as error:
            # The reader went away. What is still buffered must not raise again at exit.
            os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
            raise typer.Exit(BROKEN_PIPE) from error


app = typer.Typer(
    cls=_Commands,
    help="Where the GPU-seconds and dollars of a fleet went.",
    rich_markup_mode=None,
    pretty_exceptions_enable=False,
    add_completion=False,
    context_settings={"help_option_names": ["--help", "-h"]},
)
add_all(app)


def _now_us() -> int:
    return time.time_ns() // 1000


@app.callback(invoke_without_command=True)
def root(
    context: typer.Context, version: Annotated[bool, typer.Option("--version", help="Print the version.")] = False
) -> None:
    """Where the GPU-seconds and dollars of a fleet went."""
    context.obj = _now_us
    if version:
        from importlib.metadata import version as installed

        typer.echo(f"gpuwatch {installed('gpuwatch')}")
        raise typer.Exit
    if context.invoked_subcommand is None:
        typer.echo(context.get_help())


def run(arguments: Sequence[str]) -> int:
    """Runs one command line; returns its exit code (contract.md section 2). No error of ours shows a traceback."""
    try:
        code = app(list(arguments), standalone_mode=False, prog_name="gpuwatch")
    except _ClickException as error:
        text = str(error.format_message())
        command = next((a for a in arguments if not a.startswith("-")), "")
        known = [c.name for c in app.registered_commands] + [g.name for g in app.registered_groups]
        where = f"gpuwatch {command} --help" if command in known else "gpuwatch --help"
        say(f"gpuwatch: {' '.join(text.split())} (see {where})")
        return USAGE
    except (typer.Abort, KeyboardInterrupt):
        return _interrupted()
    except RuntimeError as error:
        if str(error) != QUERY_INTERRUPTED:
            raise
        return _interrupted()
    if code == INTERRUPTED:  # Typer has taken the Ctrl-C
        return _interrupted()
    return code if isinstance(code, int) else 0


def _interrupted() -> int:
    say("gpuwatch: interrupted; run it again to continue")
    return INTERRUPTED


def main() -> None:
    """Entry point: exits with the code of the command."""
    sys.exit(run(sys.argv[1:]))
