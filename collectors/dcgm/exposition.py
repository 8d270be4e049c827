"""Parses Prometheus and OpenMetrics text into flat arrays of samples.

A page repeats the same series text in every scrape, so the text before the value is one key of a dict and its labels
are parsed once. Everything that the fast path does not recognise exactly goes through the full grammar.

Timestamps are read by magnitude: 13 digits are milliseconds (text 0.0.4), 10 digits are seconds (OpenMetrics), both from
2001-09-09 to 2286. This works for both formats, also if `# EOF` was lost or added by hand, and refuses truncated times.

A last line without line feed is read, as in Prometheus, unless it is truncated: the compressed data broke off, or only
this sample lacks a time.
"""

from __future__ import annotations

import re
import zlib
from collections.abc import Callable, Iterator
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from gpuwatch.collectors.shared.series import Samples
from gpuwatch.core.errors import UnreadableInput
from gpuwatch.core.model import Rejects

BLOCK_BYTES = 512 * 1024  # the fastest size measured: its lines stay in the cache of a core
MAX_LINE_BYTES = 64 * 1024
MAX_LABELS = 64
MAX_LABEL_VALUE_BYTES = 4 * 1024
MAX_SERIES = 1_000_000
MAX_SERIES_BYTES = 256 * 1024 * 1024
"""Limits of the series texts in the cache, in number and size; above either it is cleared, with the same results."""

NO_TIME = np.iinfo(np.int64).min
"""`time_us` of a sample without timestamp."""

FIRST_SECOND, LAST_SECOND = 1e9, 1e10
FIRST_MILLISECOND, LAST_MILLISECOND = 1e12, 1e13
_NO_STAMP = float("-inf")

LINE_TOO_LONG = f"line longer than {MAX_LINE_BYTES} bytes"
BAD_LINE = "not a Prometheus sample line"
BAD_VALUE = "value or timestamp is not a number"
BAD_TIME = "timestamp is neither seconds nor milliseconds of 2001 to 2286"
BAD_LABELS = f"label twice, or beyond {MAX_LABELS} labels or {MAX_LABEL_VALUE_BYTES} bytes a value"
NOT_TEXT = "not UTF-8 text"
TORN = "last line is torn"
DAMAGED = "compressed data is damaged; what follows is lost"


class Stream(Protocol):
    """Anything with read(size) -> bytes; b"" at the end."""

    def read(self, size: int, /) -> bytes: ...


class Reader:
    """Reads texts; bad lines are refused one by one with their line numbers.

    `number_of(name, labels)` gives the number of a new series, and of every series again after forget().
    """

    def __init__(self, number_of: Callable[[str, dict[str, str]], int], file: str, rejects: Rejects) -> None:
        self._number_of = number_of
        self._file = file
        self._rejects = rejects
        self._numbers: dict[bytes, int] = {}
        self._bytes = 0
        self._line = 0  # lines before the current block
        self._stamped = False  # a sample had a time

    def forget(self) -> None:
        """Drops the series numbers; the caller assigns new ones."""
        self._numbers.clear()
        self._bytes = 0

    def start_page(self, rejects: Rejects) -> None:
        """Starts another page of the same source, with lines from 1 and its own refusals."""
        self._rejects = rejects
        self._line = 0
        self._stamped = False

    def __len__(self) -> int:
        """Number of series texts in the cache."""
        return len(self._numbers)

    def read(self, stream: Stream) -> Iterator[Samples]:
        """Samples of a stream, a block of BLOCK_BYTES at a time, within the memory limits above.

        Values are as printed; `time_us` is NO_TIME without a timestamp; `line` is the line of the text.
        """
        carry = b""  # the unfinished last line, at most MAX_LINE_BYTES
        skipping = False  # inside a line that was refused for its length
        first = True
        damage = ""
        while True:
            try:
                data = stream.read(BLOCK_BYTES)
            except (EOFError, OSError, zlib.error) as error:
                damage = str(error)
                break
            if not data:
                break
            if first and len(carry := carry + data) < 3:
                continue
            if first:
                data, carry, first = _without_mark(carry, self._file), b"", False
            if skipping:
                end = data.find(b"\n")
                if end < 0:
                    continue
                data, skipping = data[end + 1 :], False
                self._line += 1
            end = data.rfind(b"\n")
            if end >= 0:
                yield self._block((carry + data[:end]).split(b"\n"))
                carry = data[end + 1 :]
            else:
                carry += data
            if len(carry) > MAX_LINE_BYTES:
                self._refuse(LINE_TOO_LONG, self._line + 1, carry)
                carry, skipping = b"", True
        if carry and not damage:
            yield self._last(carry)
        elif carry:
            self._refuse(TORN, self._line + 1, carry)
        if damage:
            self._refuse(DAMAGED, self._line + 1, damage.encode())

    def _last(self, line: bytes) -> Samples:
        """The last line, which has no line feed."""
        stamped = self._stamped
        samples = self._block(line.split(b"\n"))  # a start of less than three bytes may contain line feeds
        if stamped and len(samples.line) and samples.time_us[0] == NO_TIME:
            self._refuse(TORN, self._line, line)
            return samples.where(np.zeros(len(samples.line), np.bool_))
        return samples

    def _block(self, lines: list[bytes]) -> Samples:
        """The samples of complete lines."""
        if max(map(len, lines)) > MAX_LINE_BYTES:
            for at, line in enumerate(lines):
                if len(line) > MAX_LINE_BYTES:
                    self._refuse(LINE_TOO_LONG, self._line + at + 1, line)
                    lines[at] = b""
        series: list[int] = []
        values: list[float] = []
        stamps: list[float] = []
        without: list[int] = []  # indexes of lines without a sample
        add_series, add_value, add_stamp = series.append, values.append, stamps.append
        number_of = self._numbers.get
        last, last_stamp = b"", _NO_STAMP  # the lines of a page usually share their time
        for line in lines:
            head, _, tail = line.rpartition(b"} ")
            number = number_of(head)
            if number is not None and b"_" not in tail:  # float() accepts 1_000, the format does not
                value, _, stamp = tail.partition(b" ")
                try:
                    number_value = float(value)
                    if stamp != last:
                        last, last_stamp = stamp, float(stamp) if stamp else _NO_STAMP
                except ValueError:
                    pass
                else:
                    add_series(number)
                    add_value(number_value)
                    add_stamp(last_stamp)
                    continue
            at = len(series) + len(without)
            if line[:1] != b"#" and (sample := self._slow(line, self._line + at + 1)):
                add_series(sample[0])
                add_value(sample[1])
                add_stamp(sample[2])
            else:
                without.append(at)
        numbers = np.arange(self._line + 1, self._line + 1 + len(lines), dtype=np.int64)
        self._line += len(lines)
        return self._timed(
            Samples(
                np.array(series, dtype=np.int32),
                np.array(values, dtype=np.float64),
                np.empty(0, dtype=np.int64),
                np.delete(numbers, without) if without else numbers,
            ),
            np.array(stamps, dtype=np.float64),
            lines,
        )

    def _timed(self, samples: Samples, stamps: NDArray[np.float64], lines: list[bytes]) -> Samples:
        """`samples` with their times; those with an invalid time are refused."""
        seconds = (stamps >= FIRST_SECOND) & (stamps < LAST_SECOND)
        milliseconds = (stamps >= FIRST_MILLISECOND) & (stamps < LAST_MILLISECOND)
        given = seconds | milliseconds
        missing = stamps == _NO_STAMP
        # A double has a precision of a quarter microsecond for seconds of this century, so rounding is exact.
        us = np.rint(np.where(given, stamps, 0.0) * np.where(seconds, 1e6, 1e3)).astype(np.int64)
        time_us = np.where(missing, NO_TIME, us)
        good = given | missing
        self._stamped = self._stamped or bool(given.any())
        samples = Samples(samples.series, samples.value, time_us, samples.line)
        if good.all():
            return samples
        before = self._line - len(lines)
        for line in samples.line[~good].tolist():
            self._refuse(BAD_TIME, line, lines[line - before - 1])
        return samples.where(good)

    def _slow(self, raw: bytes, number: int) -> tuple[int, float, float] | None:
        """Parses one line by the full grammar: (series number, value, stamp); None for a comment, a blank or a bad line."""
        line = raw.strip(b" \t\r")
        if not line or line.startswith(b"#"):
            return None
        try:
            key, name, labels, value, stamp = _parsed(line)
        except ValueError as error:
            self._refuse(NOT_TEXT if isinstance(error, UnicodeDecodeError) else str(error), number, raw)
            return None
        return self._number(key, name, labels), value, stamp

    def _number(self, key: bytes, name: str, labels: dict[str, str]) -> int:
        """The number of a series, cached by the text that the fast path looks up."""
        if (number := self._numbers.get(key)) is not None:
            return number
        number = self._number_of(name, labels)
        if len(self._numbers) >= MAX_SERIES or self._bytes + len(key) > MAX_SERIES_BYTES:
            self.forget()
        self._numbers[key] = number
        self._bytes += len(key)
        return number

    def _refuse(self, reason: str, line: int, text: bytes) -> None:
        shown = text[: Rejects.MAX_EXAMPLE].decode("utf-8", "replace")
        self._rejects.add(reason, self._file, line, shown)


def timed(samples: Samples, default_us: int) -> Samples:
    """The samples, those without a timestamp at `default_us`."""
    times = np.where(samples.time_us == NO_TIME, default_us, samples.time_us)
    return Samples(samples.series, samples.value, times, samples.line)


_NAME = re.compile(r"[a-zA-Z_:][a-zA-Z0-9_:]*")
_OPEN = re.compile(r"[ \t]*\{")
_LABEL = re.compile(r'[ \t]*([a-zA-Z_][a-zA-Z0-9_]*)[ \t]*=[ \t]*"([^"\\]*(?:\\.[^"\\]*)*)"[ \t]*(?:,|(?=\}))')
_CLOSE = re.compile(r"[ \t]*\}")
_REST = re.compile(r"[ \t]*([^ \t#{]+)(?:[ \t]+([^ \t#{]+))?[ \t]*(?:#[ \t]*\{.*\}[ \t]+[^ \t]+(?:[ \t]+[^ \t]+)?)?")
_ESCAPE = re.compile(r'\\([\\"n])')


def _parsed(line: bytes) -> tuple[bytes, str, dict[str, str], float, float]:
    """(look-up key, name, labels, value, stamp) of a sample line; raises ValueError with the reason."""
    text = line.decode()
    if "\0" in text:
        raise ValueError(NOT_TEXT)
    if (name := _NAME.match(text)) is None:
        raise ValueError(BAD_LINE)
    at = name.end()
    labels: dict[str, str] = {}
    key = text[:at].encode() + b"\n"  # no labels: a key with a line feed, which the fast path never looks up
    if opening := _OPEN.match(text, at):
        labels, at = _labels(text, opening.end())
        key = text[: at - 1].encode()
    elif not text.startswith((" ", "\t"), at):
        raise ValueError(BAD_LINE)
    if (rest := _REST.fullmatch(text, at)) is None:
        raise ValueError(BAD_LINE)
    return key, name[0], labels, _number(rest[1]), _number(rest[2]) if rest[2] else _NO_STAMP


def _number(text: str) -> float:
    """A float in the syntax of the format: float() alone also accepts 1_000 and non-ASCII digits."""
    try:
        return float(text.replace("_", "?").encode())
    except ValueError:
        raise ValueError(BAD_VALUE) from None


def _labels(text: str, at: int) -> tuple[dict[str, str], int]:
    """The labels from `at`, just after the brace, and the offset after the closing one; raises ValueError."""
    labels: dict[str, str] = {}
    while (close := _CLOSE.match(text, at)) is None:
        if (label := _LABEL.match(text, at)) is None:
            raise ValueError(BAD_LINE)
        name, value = label.groups()
        if "\\" in value:
            value = _ESCAPE.sub(lambda match: "\n" if match[1] == "n" else match[1], value)
        if name in labels or len(labels) >= MAX_LABELS or len(value.encode()) > MAX_LABEL_VALUE_BYTES:
            raise ValueError(BAD_LABELS)
        labels[name] = value
        at = label.end()
    return labels, close.end()


def _without_mark(start: bytes, file: str) -> bytes:
    """The first bytes without a UTF-8 byte order mark; raises UnreadableInput for UTF-16."""
    if start.startswith((b"\xff\xfe", b"\xfe\xff")):
        raise UnreadableInput(f"{file}: is UTF-16 text; save it as UTF-8")
    return start.removeprefix(b"\xef\xbb\xbf")
