"""The FOCUS export, from the data directory or from the server that holds it."""

from __future__ import annotations

import os
import shutil
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from tempfile import NamedTemporaryFile
from typing import TYPE_CHECKING, BinaryIO

from gpuwatch.commands import remote
from gpuwatch.commands.shared import in_folder, opened, print_stderr
from gpuwatch.core.errors import UnreadableInput, UsageError
from gpuwatch.store import lockfile
from gpuwatch.store.private_files import users_umask

if TYPE_CHECKING:
    from gpuwatch.core.clock import Window

COPY_BYTES = 1 << 20


def export(
    span: Window, data: Path, config: Path | None, out: Path | None, version: str | None, form: str | None
) -> None:
    """Writes the rows of a window to `out` or stdout, and warnings about missing prices to stderr.

    The file is replaced only when the export is complete; a failed export leaves the old file.
    """
    from gpuwatch.billing.focus.export import DEFAULT_VERSION, check_version
    from gpuwatch.billing.focus.files import check_form
    from gpuwatch.core.clock import rfc3339

    version = version or DEFAULT_VERSION
    form = form or ("parquet" if out is not None and out.suffix == ".parquet" else "csv")
    check_version(version)
    check_form(form)
    if form == "parquet" and out is None and sys.stdout.isatty():
        raise UsageError("--focus-format parquet: cannot print a binary file to a terminal; add --out FILE")
    with _target(out) as file:
        if (note := lockfile.find(data)) is not None:
            window = f"{rfc3339(span.start_us)},{rfc3339(span.end_us)}"
            parameters = {"window": window, "format": "focus", "focus_version": version, "focus_format": form}
            warnings = remote.save(note, "/api/v1/chargeback", parameters, file)
        else:
            warnings = _write(span, data, config, file, version, form)
    for line in warnings:
        print_stderr(line)


def _write(span: Window, data: Path, config: Path | None, file: BinaryIO, version: str, form: str) -> list[str]:
    from gpuwatch.billing.chargeback import price_all
    from gpuwatch.billing.focus.export import write

    with opened(data, config) as (store, state, _):
        price_all(store, state)
        # The export works on one day at a time, so DuckDB needs little memory.
        store.sql("set memory_limit = '400MB'")
        return write(store, state, span, file, version=version, form=form).warnings


@contextmanager
def _target(out: Path | None) -> Iterator[BinaryIO]:
    """A temporary file that is moved to `out`, or copied to stdout, if the block succeeds."""
    try:
        if out is not None:
            in_folder(out)
        file = NamedTemporaryFile(  # noqa: SIM115
            dir=None if out is None else out.parent, prefix="focus-", suffix=".part", delete=False
        )
    except OSError as error:
        raise UnreadableInput(f"--out {out}: {error.strerror or error}") from error
    try:
        with file:
            yield file  # type: ignore[misc]
        if out is None:
            with open(file.name, "rb") as whole:
                shutil.copyfileobj(whole, sys.stdout.buffer, COPY_BYTES)
            sys.stdout.flush()
        else:
            with users_umask():
                mask = os.umask(0)
                os.umask(mask)
            os.chmod(file.name, 0o666 & ~mask)  # normal permissions; the temporary file is private
            os.replace(file.name, out)
    except OSError as error:
        if out is None:
            raise
        raise UnreadableInput(f"--out {out}: {error.strerror or error}") from error
    finally:
        Path(file.name).unlink(missing_ok=True)
