"""Large JSON files, an item of a list at a time: what is in memory is one item and one block of the file."""

from __future__ import annotations

import codecs
import gzip
import json
import re
import zlib
from collections.abc import Iterator
from typing import IO, Any, NamedTuple

from gpuwatch.core.errors import UnreadableInput
from gpuwatch.core.model import Rejects

BLOCK_BYTES = 1 << 20
MAX_ITEM_CHARS = 64 << 20
"""A larger item is refused alone: a job with 40,000 steps has about as much."""
MAX_FILE_BYTES = 1 << 35
MAX_MEMBERS = 1000
"""Members of an object at the top of a file."""
EXAMPLE_CHARS = 200

_decode = json.JSONDecoder(strict=False).raw_decode
_space = re.compile(r"[ \t\r\n\ufeff]*")
_mark = re.compile(r'\\.|["{}\[\]]', re.DOTALL)


class Piece(NamedTuple):
    """A value and where it stands. `key` is the member it belongs to, "" in a list at the top of the file.

    `key` None ends a document; its value is the set of the members that were there.
    """

    line: int
    key: str | None
    value: Any


class _Broken(Exception):
    """What follows `line` cannot be read; the text says why."""

    def __init__(self, line: int, why: str) -> None:
        super().__init__(why)
        self.line = line


class _Refused(Exception):
    """One item cannot be read, and the text goes on behind it."""


def pieces(path: str, rejects: Rejects) -> Iterator[Piece]:
    """Yields the members of the object (or the items of the list) at the top of a JSON file, lists item by item.

    Several documents may follow one another; plain or gzip, UTF-8. An item that is not JSON or too large is refused
    alone, with its line; a file that breaks off keeps what came before. Raises UnreadableInput when nothing of it can
    be read.
    """
    try:
        with open(path, "rb") as file:
            packed = file.read(2) == b"\x1f\x8b"
            file.seek(0)
            with gzip.open(file) if packed else file as stream:
                yield from pieces_of(stream, path, rejects)
    except OSError as error:
        raise UnreadableInput(f"{path}: {error.strerror or error}; name a file that can be read") from error


def pieces_of(stream: IO[bytes] | gzip.GzipFile, name: str, rejects: Rejects) -> Iterator[Piece]:
    """As `pieces`, of an open binary stream that is called `name`."""
    yield from _documents(_Text(stream), name, rejects)


def _documents(text: _Text, path: str, rejects: Rejects) -> Iterator[Piece]:
    read = 0
    try:
        while mark := text.peek():
            for piece in _document(text, mark, path, rejects):
                read += 1
                yield piece
    except _Broken as error:
        if not read:
            raise UnreadableInput(f"{path}: line {error.line}: {error}; write the file again") from error
        rejects.add(f"the file breaks off: {error}", path, error.line)
        return
    if not read:
        raise UnreadableInput(f"{path}: is empty; run the command again and keep what it prints")


def _document(text: _Text, mark: str, path: str, rejects: Rejects) -> Iterator[Piece]:
    keys: set[str] = set()
    if mark == "[":
        yield from _items(text, "", path, rejects)
    elif mark == "{":
        yield from _members(text, keys, path, rejects)
    else:
        raise _Broken(text.line(), "not JSON: neither an object nor a list")
    yield Piece(text.line(), None, frozenset(keys))


def _members(text: _Text, keys: set[str], path: str, rejects: Rejects) -> Iterator[Piece]:
    text.expect("{")
    while text.peek() != "}":
        if keys:
            text.expect(",")
            text.peek()
        line = text.line()
        key = _value(text)
        if not isinstance(key, str) or len(keys) >= MAX_MEMBERS:
            raise _Broken(line, "not JSON: a member has no name, or there are too many")
        keys.add(key)
        text.expect(":")
        if text.peek() == "[":
            yield from _items(text, key, path, rejects)
            continue
        line = text.line()
        try:
            yield Piece(line, key, text.value())
        except _Refused as error:
            rejects.add(str(error), path, line, key)
    text.expect("}")


def _items(text: _Text, key: str, path: str, rejects: Rejects) -> Iterator[Piece]:
    text.expect("[")
    first = True
    while text.peek() != "]":
        if not first:
            text.expect(",")
            text.peek()
        first = False
        line, head = text.line(), text.head()
        try:
            yield Piece(line, key, text.value())
        except _Refused as error:
            rejects.add(str(error), path, line, head)
    text.expect("]")


def _value(text: _Text) -> Any:
    try:
        return text.value()
    except _Refused as error:
        raise _Broken(text.line(), str(error)) from error


class _Text:
    """The text of a stream with a place in it; what lies before the place is forgotten."""

    def __init__(self, stream: IO[bytes] | gzip.GzipFile) -> None:
        self._stream, self._bytes, self._ended = stream, 0, False
        self._decoder = codecs.getincrementaldecoder("utf-8")(errors="replace")
        self._text, self._at = "", 0
        self._line, self._counted = 1, 0

    def line(self) -> int:
        """Line number of the place, from 1."""
        self._line += self._text.count("\n", self._counted, self._at)
        self._counted = self._at
        return self._line

    def head(self) -> str:
        """Some text at the place, for people."""
        return self._text[self._at : self._at + EXAMPLE_CHARS]

    def peek(self) -> str:
        """The next character that is not space, "" at the end."""
        while True:
            match = _space.match(self._text, self._at)
            self._at = match.end() if match else self._at
            if self._at < len(self._text):
                return self._text[self._at]
            if self._more() < 0:
                return ""

    def expect(self, mark: str) -> None:
        """Steps over the next character, which must be `mark`."""
        found = self.peek()
        if found != mark:
            raise _Broken(self.line(), f"{mark!r} is missing" if found else "the text ends too early")
        self._at += 1

    def value(self) -> Any:
        """The JSON value at the place, which moves behind it. Raises _Refused for one that cannot be read."""
        mark = self.peek()
        end = 0
        try:
            value, end = _decode(self._text, self._at)
        except (ValueError, RecursionError):
            pass
        if end and (end < len(self._text) or mark in '{["'):
            self._at = end
            return value
        return self._long() if mark and mark in "{[" else self._scalar()

    def _long(self) -> Any:
        """A value that reaches beyond the block, or is broken: its end is where its brackets close."""
        start = self.line()
        end = self._close(start)
        if end < 0:
            raise _Refused(f"item is larger than {MAX_ITEM_CHARS} characters")
        text, self._at = self._text[self._at : end], end
        try:
            return _decode(text)[0]
        except (ValueError, RecursionError) as error:
            raise _Refused("item is not JSON, or nested too deeply") from error

    def _scalar(self) -> Any:
        """A number, word or text that may reach beyond the block."""
        while len(self._text) - self._at <= MAX_ITEM_CHARS and self._more() >= 0:
            try:
                value, end = _decode(self._text, self._at)
            except ValueError:
                continue
            if end < len(self._text):
                self._at = end
                return value
        try:
            value, self._at = _decode(self._text, self._at)
        except ValueError as error:
            raise _Broken(self.line(), "the text ends too early, or is not JSON") from error
        return value

    def _close(self, start: int) -> int:
        """Offset behind the bracket that closes the one at the place; -1, and the place is there, for a huge item."""
        at, depth, quoted, huge = self._at, 0, False, False
        while True:
            for found in _mark.finditer(self._text, at):
                mark, at = found[0], found.end()
                if mark == '"':
                    quoted = not quoted
                elif not quoted and mark in "{[":
                    depth += 1
                elif not quoted and mark in "}]":
                    depth -= 1
                    if not depth:
                        self._at = at if huge else self._at
                        return -1 if huge else at
            at = max(at, len(self._text) - self._text.endswith("\\"))
            huge = huge or len(self._text) - self._at > MAX_ITEM_CHARS
            self._at = at if huge else self._at
            dropped = self._more()
            if dropped < 0:
                raise _Broken(start, "an item does not end")
            at -= dropped

    def _more(self) -> int:
        """Reads a block; returns the characters before the place that were dropped for it, -1 at the end."""
        if self._ended:
            return -1
        try:
            block = self._stream.read(BLOCK_BYTES)
        except (EOFError, zlib.error, gzip.BadGzipFile) as error:
            self._ended = True
            raise _Broken(self.line(), f"broken gzip stream ({error})") from error
        self._bytes += len(block)
        if self._bytes > MAX_FILE_BYTES:
            raise _Broken(self.line(), f"larger than {MAX_FILE_BYTES} bytes")
        self._ended = not block
        self.line()
        dropped, self._counted = self._at, 0
        self._text = self._text[self._at :] + self._decoder.decode(block, final=self._ended)
        self._at = 0
        return dropped if block else -1
