"""Reads large JSON files one list item at a time, with one item and one block of the file in memory."""

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
"""A larger item is refused on its own. A job with 40,000 steps is about this large."""
MAX_FILE_BYTES = 1 << 35
MAX_MEMBERS = 1000
"""Members of the top-level object."""
EXAMPLE_CHARS = 200

_decode = json.JSONDecoder(strict=False).raw_decode
_space = re.compile(r"[ \t\r\n\ufeff]*")
_mark = re.compile(r'\\.|["{}\[\]]', re.DOTALL)


class Element(NamedTuple):
    """A value with its line. `key` is the member that it belongs to, "" in a top-level list.

    With `key` None it marks the end of a document; the value is the set of its members.
    """

    line: int
    key: str | None
    value: Any


class _Broken(Exception):
    """The text after `line` cannot be read, for the given reason."""

    def __init__(self, line: int, why: str) -> None:
        super().__init__(why)
        self.line = line


class _Refused(Exception):
    """One item cannot be read; the text after it can."""


def elements(path: str, rejects: Rejects) -> Iterator[Element]:
    """Yields the members of the top-level object (or items of the top-level list) of a JSON file, lists item by item.

    The file is plain or gzip, UTF-8, and may have several documents. An item that is too large or not JSON is refused
    with its line; the items before a truncation are kept. Raises UnreadableInput if nothing can be read.
    """
    try:
        with open(path, "rb") as file:
            packed = file.read(2) == b"\x1f\x8b"
            file.seek(0)
            with gzip.open(file) if packed else file as stream:
                yield from elements_of(stream, path, rejects)
    except OSError as error:
        raise UnreadableInput(f"{path}: {error.strerror or error}; name a file that can be read") from error


def elements_of(stream: IO[bytes] | gzip.GzipFile, name: str, rejects: Rejects) -> Iterator[Element]:
    """Like `elements`, for an open binary stream; `name` is used in messages."""
    yield from _documents(_Text(stream), name, rejects)


def _documents(text: _Text, path: str, rejects: Rejects) -> Iterator[Element]:
    read = 0
    try:
        while mark := text.peek():
            for element in _document(text, mark, path, rejects):
                read += 1
                yield element
    except _Broken as error:
        if not read:
            raise UnreadableInput(f"{path}: line {error.line}: {error}; write the file again") from error
        rejects.add(f"the file breaks off: {error}", path, error.line)
        return
    if not read:
        raise UnreadableInput(f"{path}: is empty; run the command again and keep what it prints")


def _document(text: _Text, mark: str, path: str, rejects: Rejects) -> Iterator[Element]:
    keys: set[str] = set()
    if mark == "[":
        yield from _items(text, "", path, rejects)
    elif mark == "{":
        yield from _members(text, keys, path, rejects)
    else:
        raise _Broken(text.line(), "not JSON: neither an object nor a list")
    yield Element(text.line(), None, frozenset(keys))


def _members(text: _Text, keys: set[str], path: str, rejects: Rejects) -> Iterator[Element]:
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
            yield Element(line, key, text.value())
        except _Refused as error:
            rejects.add(str(error), path, line, key)
    text.expect("}")


def _items(text: _Text, key: str, path: str, rejects: Rejects) -> Iterator[Element]:
    text.expect("[")
    first = True
    while text.peek() != "]":
        if not first:
            text.expect(",")
            text.peek()
        first = False
        line, head = text.line(), text.head()
        try:
            yield Element(line, key, text.value())
        except _Refused as error:
            rejects.add(str(error), path, line, head)
    text.expect("]")


def _value(text: _Text) -> Any:
    try:
        return text.value()
    except _Refused as error:
        raise _Broken(text.line(), str(error)) from error


class _Text:
    """The text of a stream with a current position; text before the position is dropped."""

    def __init__(self, stream: IO[bytes] | gzip.GzipFile) -> None:
        self._stream, self._bytes, self._ended = stream, 0, False
        self._decoder = codecs.getincrementaldecoder("utf-8")(errors="replace")
        self._text, self._at = "", 0
        self._line, self._counted = 1, 0

    def line(self) -> int:
        """Line number of the position, from 1."""
        self._line += self._text.count("\n", self._counted, self._at)
        self._counted = self._at
        return self._line

    def head(self) -> str:
        """The text at the position, as an example for messages."""
        return self._text[self._at : self._at + EXAMPLE_CHARS]

    def peek(self) -> str:
        """The next character that is not whitespace, "" at the end."""
        while True:
            match = _space.match(self._text, self._at)
            self._at = match.end() if match else self._at
            if self._at < len(self._text):
                return self._text[self._at]
            if self._more() < 0:
                return ""

    def expect(self, mark: str) -> None:
        """Skips the next character, which must be `mark`."""
        found = self.peek()
        if found != mark:
            raise _Broken(self.line(), f"{mark!r} is missing" if found else "the text ends too early")
        self._at += 1

    def value(self) -> Any:
        """Reads the JSON value at the position and moves past it. Raises _Refused if it cannot be read."""
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
        """Reads a value that exceeds the block, or is broken: it ends where its brackets close."""
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
        """Reads a number, literal or string that may exceed the block."""
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
        """Offset after the bracket that closes the one at the position; -1 for a huge item, which is skipped."""
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
        """Reads a block; returns how many characters before the position were dropped, -1 at the end."""
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
