"""Series of version 2.0 in a known order: whatever comes, a decoder that knows an order reads what a new one reads."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from bench.remote_write import field, series_bytes
from gpuwatch.collectors.push import remote_write, remote_write_2, series_order
from gpuwatch.collectors.push.key_order import KeyOrder
from gpuwatch.collectors.push.remote_write import RemoteWrite
from gpuwatch.collectors.push.remote_write_2 import ONE_SAMPLE, SHORTEST, split
from gpuwatch.collectors.push.remote_write_wire import varint
from tests.collectors.push.test_remote_write import NOW_MS, TYPE_2, Decoded, Series, body_2, one
from tests.collectors.push.test_series_order import equal, made, reading

TRAILERS = [b"", field(5, b"\x08\x02"), field(5, b"\x08\x01"), field(5, b"\x08\x02\x18\x03"), b"\x30\x05"]
"""Kinds of metrics, with a help text, and a time of creation."""
ODD = [b"", b"\x0a", b"\x0a\x00", b"\x0a\xff", b"\x0a\x7f" + bytes(20), field(2, b"\x10\x01"), b"\xff" * 30]
"""Series without labels, and such that end within what they begin."""


def body_of(series: list[Series], order: list[int], ends: list[int], odd: list[bytes]) -> bytes:
    """A request of version 2.0 whose texts come in another order; `ends` are the trailers of its series."""
    texts = sorted(
        {text for of, _ in series for pair in of.items() for text in pair} | {f"unused {n}" for n in range(150)}
    )
    table = [""] + [texts[at % len(texts)] for at in order] + texts
    number = {text: table.index(text) for text in texts}
    encoded = []
    for place, (of, samples) in enumerate(series):
        references = b"".join(varint(number[text]) for pair in sorted(of.items()) for text in pair)
        trailer = TRAILERS[ends[place % len(ends)]]
        encoded.append(field(5, field(1, references) + series_bytes({}, samples) + trailer))
    encoded += [field(5, raw) for raw in odd]
    return b"".join(field(4, text.encode()) for text in table) + b"".join(encoded)


@settings(max_examples=120, deadline=None)
@given(
    requests=st.lists(st.lists(reading, max_size=14), min_size=1, max_size=4),
    sent=st.lists(st.integers(0, 3), min_size=1, max_size=6),
    orders=st.lists(st.lists(st.integers(0, 999), max_size=160), min_size=1, max_size=3),
    ends=st.lists(st.integers(0, len(TRAILERS) - 1), min_size=1, max_size=5),
    odd=st.lists(st.sampled_from(ODD), max_size=2),
    bounds=st.sampled_from([(16, 64, 1 << 20), (0, 1, 1 << 20), (16, 64, 0)]),
)
def test_an_order_changes_no_reading(
    requests: list[list[tuple[int, list[tuple[float, int]]]]],
    sent: list[int],
    orders: list[list[int]],
    ends: list[int],
    odd: list[bytes],
    bounds: tuple[int, int, int],
) -> None:
    """Other tables of texts, zeros that come and go, several samples, trailers, broken series, and orders that are forgotten."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(series_order, "JUMPS_FEW", bounds[0])
        patch.setattr(series_order, "REQUESTS_MIN", bounds[1])
        patch.setattr(remote_write, "MAX_ORDER_BYTES", bounds[2])
        decoder = RemoteWrite()
        for minute, number in enumerate(sent):
            order = orders[minute % len(orders)]
            data = body_of(made(requests[number % len(requests)], minute), order, ends, odd)
            fresh = Decoded(RemoteWrite(), data, content_type=TYPE_2)
            equal(Decoded(decoder, data, content_type=TYPE_2), fresh)


@settings(max_examples=60, deadline=None)
@given(
    readings=st.lists(reading, max_size=14), ends=st.lists(st.integers(0, len(TRAILERS) - 1), min_size=1, max_size=5)
)
def test_what_is_compared_is_what_a_parser_reads(
    readings: list[tuple[int, list[tuple[float, int]]]], ends: list[int]
) -> None:
    """The readings of a decoder that has seen all series, against those of the full messages of the first request."""
    decoder = RemoteWrite()
    for minute in range(3):
        data = body_of(made(readings, minute), [], ends, [])
        known = Decoded(decoder, data, content_type=TYPE_2)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(remote_write_2, "SHORTEST", 1 << 20)  # no series is long enough to be split
        equal(known, Decoded(RemoteWrite(), data, content_type=TYPE_2))


def test_most_series_of_a_repeated_order_are_not_looked_up() -> None:
    series = [one(0.5 if n % 3 else 0.0, UUID=f"GPU-{n}") for n in range(500)]
    decoder = RemoteWrite()
    for minute in range(3):
        Decoded(
            decoder, body_2([(of, [(values[0][0], NOW_MS + minute)]) for of, values in series]), content_type=TYPE_2
        )
    known = decoder._clusters["c1"]
    looked_up: list[bytes] = []

    def number_of(key: bytes, unknown: int) -> int:
        looked_up.append(key)
        return known.by_texts.get(key, unknown)

    request = decoder._wire.request_2.FromString(body_2(series[101:], shift=300))
    found = split(request.timeseries, known.texts.numbers(list(request.symbols)), known.texts.trailers)
    numbers = known.key_order.numbers(found.keys, number_of, -9, learn=True)

    assert (399, ONE_SAMPLE) == found.tails.shape and [] == found.others
    assert list(range(101, 500)) == numbers.tolist()
    assert 1 == len(looked_up)


def test_an_order_that_others_send_is_learned_again(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(series_order, "REQUESTS_MIN", 2)
    series = [one(0.5, UUID=f"GPU-{n}") for n in range(200)]
    other = [series[n * 77 % 200] for n in range(200)]
    decoder = RemoteWrite()
    for each in (series, series, series, other, other, other):
        assert 200 == len(Decoded(decoder, body_2(each), content_type=TYPE_2).readings)
    known = decoder._clusters["c1"]
    looked_up: list[bytes] = []

    def number_of(key: bytes, unknown: int) -> int:
        looked_up.append(key)
        return known.by_texts.get(key, unknown)

    request = decoder._wire.request_2.FromString(body_2(other))
    found = split(request.timeseries, known.texts.numbers(list(request.symbols)), known.texts.trailers)
    known.key_order.numbers(found.keys, number_of, -9, learn=True)
    assert 1 == len(looked_up)


def test_the_memory_of_all_orders_has_a_bound(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(remote_write, "MAX_ORDER_BYTES", 10_000)
    decoder = RemoteWrite()
    data = body_2([one(0.5, UUID=f"GPU-{n}") for n in range(60)])
    for _ in range(3):
        for cluster in ("c1", "c2"):
            assert 60 == len(Decoded(decoder, data, cluster, content_type=TYPE_2).readings)
    assert 10_000 <= decoder._clusters["c1"].key_order.size and 0 == decoder._clusters["c2"].key_order.size


def test_a_series_without_labels_is_refused_and_harms_no_other() -> None:
    series = [one(0.25, UUID="GPU-1"), one(0.5, UUID="GPU-2")]
    data = field(5, field(1, b"") + series_bytes({}, [(0.75, NOW_MS)])) + body_2(series)
    decoder = RemoteWrite()
    for _ in range(3):
        got = Decoded(decoder, data, content_type=TYPE_2)
        assert [("GPU-1", 0.25), ("GPU-2", 0.5)] == sorted((gpu, value) for gpu, *_, value in got.readings)
        assert 1 == sum(got.rejects.counts.values())


def test_no_series_shorter_than_a_label_and_a_sample_is_split() -> None:
    numbers = np.zeros(1, np.int32)
    found = split([b"\x0a" * size for size in range(SHORTEST + 1)], numbers, {b""})
    assert list(range(1, SHORTEST + 2)) == found.others and 0 == len(found.keys)


def test_no_series_at_all() -> None:
    assert 0 == len(split([], np.zeros(0, np.int32), {b""}).lines)
    assert 0 == len(
        KeyOrder().numbers(split([], np.zeros(0, np.int32), set()).keys, lambda _, unknown: unknown, -9, True)
    )


def test_each_metric_may_have_a_trailer_of_its_own() -> None:
    """Prometheus refers to the help text of each metric: none of their series is parsed in full again."""
    kinds = [field(5, b"\x08\x02\x18" + bytes((number,))) for number in range(1, 120)]
    series = [one(0.5, UUID=f"GPU-{number}") for number in range(len(kinds))]
    table = [""] + sorted({text for of, _ in series for pair in of.items() for text in pair})
    parts = [field(4, text.encode()) for text in table]
    for (of, samples), kind in zip(series, kinds, strict=True):
        references = b"".join(varint(table.index(text)) for pair in sorted(of.items()) for text in pair)
        parts.append(field(5, field(1, references) + series_bytes({}, samples) + kind))
    data, decoder = b"".join(parts), RemoteWrite()
    for _ in range(2):
        assert len(series) == len(Decoded(decoder, data, content_type=TYPE_2).readings)
    request = decoder._wire.request_2.FromString(data)
    texts = decoder._clusters["c1"].texts

    assert [] == split(request.timeseries, texts.numbers(list(request.symbols)), texts.trailers).others


def test_series_that_are_never_split_take_no_more_memory_each_time() -> None:
    """Samples that have another field where the time is expected are parsed in full, each time."""
    data = body_2([one(0.5, UUID=f"GPU-{number}") for number in range(50)])
    odd = data.replace(b"\x10" + varint(NOW_MS), b"\x18" + varint(NOW_MS))
    assert odd != data
    decoder = RemoteWrite()
    sizes = []
    for _ in range(4):
        Decoded(decoder, odd, content_type=TYPE_2)
        sizes.append(decoder._clusters["c1"].size)

    assert sizes[1] == sizes[3]
