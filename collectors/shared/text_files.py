"""Lines of text files, plain or gzip, within bounds."""

from __future__ import annotations

import gzip
import zlib
from collections.abc import Iterable, Iterator
from typing import IO

from gpuwatch.core.errors import UnreadableInput
from gpuwatch.core.model import Rejects

MAX_LINE_BYTES = 1 << 20
MAX_FILE_BYTES = 1 << 30
PROBE_BYTES = 64 << 10

Lines = Iterable[tuple[int, str]]
"""Lines without their newline, numbered from 1."""


def numbered_lines(
    path: str, rejects: Rejects, max_file_bytes: int | None = None, max_line_bytes: int = MAX_LINE_BYTES
) -> Iterator[tuple[int, str]]:
    """Yields the lines of a text file, plain or gzip (detected by content, not by name).

    Bytes that are not UTF-8 become U+FFFD. A line of more than `max_line_bytes` is rejected on its own; of a truncated
    gzip stream the complete part is read. Raises UnreadableInput for a file that is missing, empty, binary, or larger
    (uncompressed) than `max_file_bytes`.
    """
    try:
        with open(path, "rb") as file:
            packed = file.read(2) == b"\x1f\x8b"
            file.seek(0)
            with gzip.open(file) if packed else file as stream:
                yield from _lines(stream, path, rejects, max_file_bytes, max_line_bytes)
    except OSError as error:
        raise UnreadableInput(f"{path}: {error.strerror or error}; pass a readable file") from error


def _lines(
    stream: IO[bytes] | gzip.GzipFile, path: str, rejects: Rejects, max_file_bytes: int | None, max_line_bytes: int
) -> Iterator[tuple[int, str]]:
    number, size = 0, 0
    while True:
        try:
            line = stream.readline(max_line_bytes)
            while len(line) >= max_line_bytes and not line.endswith(b"\n"):
                rejects.add(
                    f"line is longer than {max_line_bytes} bytes", path, number + 1, line[:200].decode(errors="replace")
                )
                line = _skip_rest(stream, max_line_bytes)
                number += 1
        except (EOFError, zlib.error, gzip.BadGzipFile) as error:
            if not number:
                raise UnreadableInput(f"{path}: broken gzip ({error}); create the file again") from error
            rejects.add("gzip stream is truncated", path, number + 1, str(error))
            return
        if not line:
            break
        number += 1
        size += len(line)
        if b"\x00" in line and size <= PROBE_BYTES:
            raise UnreadableInput(f"{path}: binary, not text; pass the text that the command printed")
        if max_file_bytes is not None and size > max_file_bytes:
            raise UnreadableInput(f"{path}: larger than {max_file_bytes} bytes; split it")
        yield number, line.decode(errors="replace").rstrip("\r\n")
    if not number:
        raise UnreadableInput(f"{path}: empty; run the command again and save its output")


def _skip_rest(stream: IO[bytes] | gzip.GzipFile, max_line_bytes: int) -> bytes:
    """Skips the rest of the current line and returns the next one."""
    while (chunk := stream.readline(max_line_bytes)) and not chunk.endswith(b"\n"):
        pass
    return stream.readline(max_line_bytes)
