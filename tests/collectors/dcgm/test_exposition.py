"""Prometheus and OpenMetrics text to samples: grammar, times, bad lines, bounds."""

from __future__ import annotations

import gzip
import io
import tracemalloc
from collections.abc import Iterator
from itertools import pairwise

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from gpuwatch.collectors.dcgm import exposition
from gpuwatch.collectors.dcgm.exposition import MAX_LINE_BYTES, NO_TIME, Reader
from gpuwatch.core.errors import UnreadableInput
from gpuwatch.core.model import Rejects

Series = tuple[str, tuple[tuple[str, str], ...]]
Found = list[tuple[Series, float, int | None, int]]
NOV_2026_S = 1_795_226_909
MIB = 1024 * 1024


class Dribble:
    """A stream that answers with the given pieces, whatever size is asked for."""

    def __init__(self, pieces: list[bytes]) -> None:
        self._pieces = [piece for piece in pieces if piece]

    def read(self, size: int, /) -> bytes:
        return self._pieces.pop(0) if self._pieces else b""


def parse(*pieces: bytes) -> tuple[Found, Rejects]:
    """(series, value, time or None, line) of each sample, and the refusals."""
    known: list[Series] = []

    def number_of(name: str, labels: dict[str, str]) -> int:
        known.append((name, tuple(labels.items())))
        return len(known) - 1

    rejects = Rejects()
    found: Found = []
    for block in Reader(number_of, "page", rejects).read(Dribble(list(pieces))):
        rows = zip(block.series, block.value, block.time_us, block.line, strict=True)
        found += [(known[s], float(v), None if t == NO_TIME else int(t), int(n)) for s, v, t, n in rows]
    return found, rejects


@pytest.mark.parametrize(
    "text",
    [
        pytest.param(b"", id="nothing"),
        pytest.param(b"\n\n", id="blank lines"),
        pytest.param(b"# HELP m a metric\n# TYPE m gauge\n# EOF\n", id="comments only"),
    ],
)
def test_text_without_samples_gives_none_and_refuses_none(text: bytes) -> None:
    found, rejects = parse(text)

    assert [] == found
    assert {} == rejects.counts


@pytest.mark.parametrize(
    ("line", "labels", "value"),
    [
        pytest.param(b"m 1", {}, 1.0, id="no labels"),
        pytest.param(b"m{} 1", {}, 1.0, id="empty braces"),
        pytest.param(b'm{a="b"} 0.5', {"a": "b"}, 0.5, id="one label"),
        pytest.param(b'm{a="b", c="d"} 2', {"a": "b", "c": "d"}, 2.0, id="a blank after the comma"),
        pytest.param(b'm{a="b",} 2', {"a": "b"}, 2.0, id="a trailing comma"),
        pytest.param(b'm { a = "b" , c="d" } 2', {"a": "b", "c": "d"}, 2.0, id="blanks everywhere"),
        pytest.param(b'  m{a="b"}\t2 ', {"a": "b"}, 2.0, id="tabs and blanks around"),
        pytest.param(b'm{a="b"} 2\r', {"a": "b"}, 2.0, id="a carriage return"),
        pytest.param(b'm{a="x} 7",c="y"} 2', {"a": "x} 7", "c": "y"}, 2.0, id="the closing sign inside a value"),
        pytest.param(b'm{a="x\\"} 9"} 2', {"a": 'x"} 9'}, 2.0, id="an escaped quote and a closing sign"),
        pytest.param(b'm{a="\\\\n\\n\\"\\d"} 2', {"a": '\\n\n"\\d'}, 2.0, id="all escapes, and one that is none"),
        pytest.param('m{a="Zürich"} 2'.encode(), {"a": "Zürich"}, 2.0, id="UTF-8"),
        pytest.param(b'm{a="b"} -1.5e-3', {"a": "b"}, -0.0015, id="an exponent"),
        pytest.param(b'm{a="b"} +Inf', {"a": "b"}, float("inf"), id="infinity"),
        pytest.param(b'm{a="b"} 3 # {trace="x} 5"} 0.7 1.5', {"a": "b"}, 3.0, id="an exemplar"),
    ],
)
def test_legal_lines_are_read_alike_by_both_paths(line: bytes, labels: dict[str, str], value: float) -> None:
    found, rejects = parse(line + b"\n" + line + b"\n")
    series = ("m", tuple(labels.items()))

    assert [(series, value, None, 1), (series, value, None, 2)] == found
    assert {} == rejects.counts


@pytest.mark.parametrize(
    ("line", "reason"),
    [
        pytest.param(b'm{a="b"} ', exposition.BAD_LINE, id="no value"),
        pytest.param(b'm{a="b"} x', exposition.BAD_VALUE, id="a word for a value"),
        pytest.param(b'm{a="b"} 1_000', exposition.BAD_VALUE, id="a Python number"),
        pytest.param('m{a="b"} ١'.encode(), exposition.BAD_VALUE, id="a digit beyond ASCII"),
        pytest.param(b'm{a="b"} 1 1795226909000 5', exposition.BAD_LINE, id="a third number"),
        pytest.param(b'm{a="b"} 1 y', exposition.BAD_VALUE, id="a word for a time"),
        pytest.param(b'm{a="b"} 1 179522690', exposition.BAD_TIME, id="a time that lost a digit"),
        pytest.param(b'm{a="b"} 1 179522690900', exposition.BAD_TIME, id="milliseconds that lost a digit"),
        pytest.param(b'm{a="b"} 1 nan', exposition.BAD_TIME, id="no time"),
        pytest.param(b'm{a="b"', exposition.BAD_LINE, id="torn labels"),
        pytest.param(b'm{a="b"} x{c="d"} 5', exposition.BAD_LINE, id="two series on a line"),
        pytest.param(b'm{a="b",...,c="d"} 5', exposition.BAD_LINE, id="shortened labels"),
        pytest.param(b'm{a="b",a="c"} 5', exposition.BAD_LABELS, id="a label twice"),
        pytest.param(b'm{a="' + b"x" * 5000 + b'"} 5', exposition.BAD_LABELS, id="a label value too long"),
        pytest.param(
            b"m{" + b",".join(b'l%d="1"' % n for n in range(65)) + b"} 5", exposition.BAD_LABELS, id="too many labels"
        ),
        pytest.param(b'm{a="\xff"} 5', exposition.NOT_TEXT, id="not UTF-8"),
        pytest.param(b'm{a="b"} 5\x00', exposition.NOT_TEXT, id="a NUL byte"),
        pytest.param(b'm{a="b"} ' + b"1" * MAX_LINE_BYTES, exposition.LINE_TOO_LONG, id="a line too long"),
        pytest.param(b"1m 5", exposition.BAD_LINE, id="a name that starts with a digit"),
        pytest.param(b"m", exposition.BAD_LINE, id="a name alone"),
    ],
)
def test_bad_lines_are_refused_one_by_one_with_their_number(line: bytes, reason: str) -> None:
    good = b'm{a="b"} 1\n'
    found, rejects = parse(good + line + b"\n" + good + line + b"\n" + good)

    assert [1, 3, 5] == [number for _, _, _, number in found]
    assert {reason: 2} == rejects.counts
    assert ("page", 2) == rejects.first[reason][:2]


@pytest.mark.parametrize(
    ("stamp", "us"),
    [
        pytest.param(b"1795226909000", NOV_2026_S * 10**6, id="milliseconds"),
        pytest.param(b"1795226909123", NOV_2026_S * 10**6 + 123_000, id="milliseconds with a fraction of a second"),
        pytest.param(b"1795226909", NOV_2026_S * 10**6, id="seconds"),
        pytest.param(b"1795226909.123456", NOV_2026_S * 10**6 + 123_456, id="seconds to the microsecond"),
        pytest.param(b"1795226909.000001", NOV_2026_S * 10**6 + 1, id="one microsecond"),
        pytest.param(b"1.795226909e9", NOV_2026_S * 10**6, id="seconds with an exponent"),
    ],
)
@pytest.mark.parametrize("end", [b"", b"# EOF\n"])
def test_times_are_exact_in_both_units(stamp: bytes, us: int, end: bytes) -> None:
    found, rejects = parse(b'm{a="b"} 1 ' + stamp + b"\n" + b'm{a="b"} 2 ' + stamp + b"\n" + end)

    assert [us, us] == [time_us for _, _, time_us, _ in found]
    assert {} == rejects.counts


@given(st.integers(10**15, 4_000_000_000 * 10**6))
def test_every_microsecond_of_this_century_survives(us: int) -> None:
    found, _ = parse(b"m 1 %d.%06d\n" % divmod(us, 10**6))

    assert [us] == [time_us for _, _, time_us, _ in found]


@pytest.mark.parametrize(
    ("text", "lines", "refused"),
    [
        pytest.param(b"m 1\nm 2", [1, 2], {}, id="a missing line feed alone is no tear"),
        pytest.param(b"m 1 1795226909000\nm 2 1795226909000", [1, 2], {}, id="nor with a whole time"),
        pytest.param(b"m 1 1795226909000\nm 2", [1], {exposition.TORN: 1}, id="the others have times"),
        pytest.param(b"m 1 1795226909000\nm 2 1795", [1], {exposition.BAD_TIME: 1}, id="a time cut short"),
        pytest.param(b'm{a="b"} 1\nm{a="', [1], {exposition.BAD_LINE: 1}, id="labels cut short"),
    ],
)
def test_a_torn_last_line_is_not_read_as_a_value(text: bytes, lines: list[int], refused: dict[str, int]) -> None:
    found, rejects = parse(text)

    assert lines == [number for _, _, _, number in found]
    assert refused == rejects.counts


def test_byte_order_marks() -> None:
    assert [("m", ())] == [series for series, _, _, _ in parse(b"\xef\xbb\xbfm 1\n")[0]]
    assert [("m", ())] == [series for series, _, _, _ in parse(b"\xef", b"\xbb", b"\xbf", b"m 1\n")[0]]
    for text in ("m 1\n".encode("utf-16"), b"\xfe\xff\x00m"):
        with pytest.raises(UnreadableInput, match="page: is UTF-16 text; save it as UTF-8"):
            parse(text)


label_names = st.from_regex(r"[a-zA-Z_][a-zA-Z0-9_]{0,8}", fullmatch=True)
label_values = st.text(
    st.one_of(st.characters(exclude_categories=["Cs"], exclude_characters="\0"), st.sampled_from('"\\\n}{ ,=#n'))
)
labels_of_series = st.lists(st.dictionaries(label_names, label_values, max_size=5), min_size=1, max_size=5)


def written(labels: dict[str, str]) -> str:
    """A label set as an exporter writes it."""
    escaped = {k: v.replace("\\", r"\\").replace('"', r"\"").replace("\n", r"\n") for k, v in labels.items()}
    return "m{" + ",".join(f'{k}="{v}"' for k, v in escaped.items()) + "}"


@settings(deadline=None)
@given(labels_of_series)
@example([{"a": '} 1 1795226909000 # {x="'}, {"a": "\\"}, {"a": '\\"'}, {"a": "\r"}])
def test_any_label_value_survives_writing_and_reading(sets: list[dict[str, str]]) -> None:
    text = "".join(f"{written(labels)} {at} 1795226909000\n" for at, labels in enumerate([*sets, *sets]))
    found, rejects = parse(text.encode())

    assert {} == rejects.counts
    assert [("m", tuple(labels.items())) for labels in [*sets, *sets]] == [series for series, _, _, _ in found]
    assert list(range(2 * len(sets))) == [value for _, value, _, _ in found]


PAGE = (
    "# HELP m ü\r\n"
    'm{a="b"} 1 1795226909000\nbad line here\nm{a="} 2"} 2 1795226909\n\nm 3\nm{a="b"} 1_0\nm{a="ü",} NaN\n'
    + 'm{a="' + "x" * 3000 + '"} 4\n' + "y" * (MAX_LINE_BYTES + 10) + "\n"
    + 'm{a="b"} 5 179522690900\nm{a="b"} 6 1795226909001'
).encode()  # fmt: skip


@settings(deadline=None, max_examples=60)
@given(st.lists(st.integers(0, len(PAGE)), max_size=6))
@example([0, 1, 2, 3])
@example([len(PAGE) - 1])
def test_block_boundaries_change_nothing(cuts: list[int]) -> None:
    edges = [0, *sorted(cuts), len(PAGE)]
    found, rejects = parse(*(PAGE[a:b] for a, b in pairwise(edges)))
    whole, whole_rejects = parse(PAGE)

    assert repr(whole) == repr(found)  # repr: one value is NaN
    assert whole_rejects == rejects


def test_a_byte_at_a_time_changes_nothing() -> None:
    text = PAGE[:3200]

    assert repr(parse(text)[0]) == repr(parse(*(bytes([byte]) for byte in text))[0])


@pytest.mark.parametrize("bound", ["MAX_SERIES", "MAX_SERIES_BYTES"])
def test_a_full_series_cache_starts_afresh_with_the_same_result(bound: str, monkeypatch: pytest.MonkeyPatch) -> None:
    text = b"".join(b'm{a="%d"} %d\n' % (n % 7, n) for n in range(50))
    whole = parse(text)
    monkeypatch.setattr(exposition, bound, 3)

    assert whole == parse(text)


def peak_bytes(stream: exposition.Stream) -> tuple[int, int, Rejects]:
    """(samples, largest traced memory, refusals) of reading a stream."""
    rejects = Rejects()
    tracemalloc.start()
    try:
        found = sum(len(block.series) for block in Reader(lambda name, labels: 0, "page", rejects).read(stream))
        return found, tracemalloc.get_traced_memory()[1], rejects
    finally:
        tracemalloc.stop()


class Endless:
    """One line of the given size without line feed, then a good line."""

    def __init__(self, size: int, byte: bytes) -> None:
        self._left, self._byte, self._tail = size, byte, [b"\nm 1\n"]

    def read(self, size: int, /) -> bytes:
        if self._left <= 0:
            return self._tail.pop() if self._tail else b""
        self._left -= size
        return self._byte * size


@pytest.mark.parametrize("byte", [b"x", b"\0", b"{", b'"'])
def test_a_line_of_a_gigabyte_takes_constant_memory(byte: bytes) -> None:
    found, peak, rejects = peak_bytes(Endless(1024 * MIB, byte))

    assert 1 == found
    assert {exposition.LINE_TOO_LONG: 1} == rejects.counts
    assert peak < 8 * MIB


def test_a_gzip_bomb_takes_constant_memory() -> None:
    packed = gzip.compress(b"z" * (64 * MIB) + b"\nm 1\n")
    found, peak, rejects = peak_bytes(gzip.GzipFile(fileobj=io.BytesIO(packed)))

    assert 1 == found
    assert {exposition.LINE_TOO_LONG: 1} == rejects.counts
    assert peak < 16 * MIB


def test_a_label_bomb_is_bounded_by_the_cache(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(exposition, "MAX_SERIES_BYTES", 2 * MIB)

    def pages() -> Iterator[bytes]:
        for page in range(40):
            yield b"".join(b'm{pod="%0100d"} 1\n' % (page * 1000 + n) for n in range(1000))

    class Pages:
        def __init__(self) -> None:
            self._pages = pages()

        def read(self, size: int, /) -> bytes:
            return next(self._pages, b"")

    found, peak, rejects = peak_bytes(Pages())

    assert 40_000 == found
    assert {} == rejects.counts
    assert peak < 12 * MIB
