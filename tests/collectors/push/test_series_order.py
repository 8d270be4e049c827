"""Series in a known order: whatever comes, a decoder that knows an order reads what a new one reads."""

from __future__ import annotations

import random

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from bench.remote_write import body, field, series_bytes
from gpuwatch.collectors.push import remote_write, series_order
from gpuwatch.collectors.push.remote_write import RemoteWrite
from gpuwatch.collectors.push.remote_write_2 import ONE_SAMPLE
from gpuwatch.collectors.push.series_order import SeriesOrder
from tests.collectors.push.test_remote_write import NOW_MS, SM, UTIL, Decoded, Series, labels, one

POOL = [
    *(labels(name, UUID=gpu) for name in (SM, UTIL, "DCGM_FI_DEV_XID_ERRORS") for gpu in ("GPU-a", "GPU-bb", "GPU-" + 200 * "c")),
    labels("node_load1", UUID="", Hostname="n2"),
    labels(SM, UUID=""),
]  # fmt: skip
VALUES = [0.0, 0.25, 1.0, float("nan"), float("inf")]
METADATA = field(3, b"\x12\x01x")

sample = st.tuples(st.sampled_from(VALUES), st.integers(-3, 1))
reading = st.tuples(st.integers(0, len(POOL) - 1), st.lists(sample, min_size=1, max_size=2))


def made(readings: list[tuple[int, list[tuple[float, int]]]], minute: int) -> list[Series]:
    return [
        (POOL[at], [(value, NOW_MS + 60_000 * (minute + late)) for value, late in samples]) for at, samples in readings
    ]


def equal(known: Decoded, fresh: Decoded) -> None:
    """The same readings in any order, and the same refusals."""
    assert sorted(fresh.readings) == sorted(known.readings)
    assert fresh.rejects.counts == known.rejects.counts


@settings(max_examples=120, deadline=None)
@given(
    st.lists(st.lists(reading, max_size=14), min_size=1, max_size=6),
    st.lists(st.integers(0, 5), min_size=1, max_size=8),
    st.sampled_from([(16, 64, 1 << 20), (0, 1, 1 << 20), (16, 64, 0)]),
    st.sampled_from([b"", METADATA]),
)
def test_an_order_changes_no_reading(
    requests: list[list[tuple[int, list[tuple[float, int]]]]],
    sent: list[int],
    bounds: tuple[int, int, int],
    end: bytes,
) -> None:
    """Zeros that come and go, other orders, several samples, and orders that are forgotten or never kept."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(series_order, "JUMPS_FEW", bounds[0])
        patch.setattr(series_order, "REQUESTS_MIN", bounds[1])
        patch.setattr(remote_write, "MAX_ORDER_BYTES", bounds[2])
        decoder = RemoteWrite()
        for minute, number in enumerate(sent):
            data = body(made(requests[number % len(requests)], minute)) + end
            equal(Decoded(decoder, data), Decoded(RemoteWrite(), data))


def test_most_series_of_a_repeated_order_are_not_looked_up() -> None:
    series = [one(0.5 if n % 3 else 0.0, UUID=f"GPU-{n}") for n in range(500)]
    decoder = RemoteWrite()
    for minute in range(3):
        Decoded(decoder, body([(of, [(values[0][0], NOW_MS + minute)]) for of, values in series]))
    order = decoder._clusters["c1"].order
    looked_up: list[bytes] = []
    known = decoder._clusters["c1"].by_bytes

    def number_of(key: bytes) -> int | None:
        looked_up.append(key)
        return known.get(key)

    later = [(of, [(0.5 if n % 2 else 0.0, NOW_MS + 99_000)]) for n, (of, _) in enumerate(series)]  # other zeros
    found = order.split(series_of(later[101:]), number_of, learn=True)

    assert (399, ONE_SAMPLE) == found.tails.shape and [] == found.others
    assert list(range(1, 400)) == found.lines.tolist() and list(range(101, 500)) == found.numbers.tolist()
    assert 1 == len(looked_up)


def test_an_order_that_others_send_is_learned_again(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(series_order, "REQUESTS_MIN", 2)
    dice = random.Random(1)
    series = [one(0.5, UUID=f"GPU-{n}") for n in range(200)]
    shuffled = series.copy()
    dice.shuffle(shuffled)
    decoder = RemoteWrite()
    for each in (series, series, series, shuffled, shuffled, shuffled):
        assert 200 == len(Decoded(decoder, body(each)).readings)
    order: SeriesOrder = decoder._clusters["c1"].order
    looked_up: list[bytes] = []

    def number_of(key: bytes) -> int | None:
        looked_up.append(key)
        return decoder._clusters["c1"].by_bytes.get(key)

    order.split(series_of(shuffled), number_of, learn=True)
    assert 1 == len(looked_up)


def test_the_memory_of_all_orders_has_a_bound(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(remote_write, "MAX_ORDER_BYTES", 10_000)
    decoder = RemoteWrite()
    for _ in range(3):
        for cluster in ("c1", "c2"):
            assert 40 == len(Decoded(decoder, body([one(0.5, UUID=f"GPU-{n}") for n in range(40)]), cluster).readings)
    assert 10_000 <= decoder._clusters["c1"].order.size and 0 == decoder._clusters["c2"].order.size


def series_of(series: list[Series]) -> list[bytes]:
    """The series of a request on the wire."""
    return [series_bytes(of, samples) for of, samples in series]


def test_rows_are_read_as_samples_of_a_clock() -> None:
    """Values and times survive bit by bit."""
    values = [0.1, -0.0, 5e-324, 1.7976931348623157e308]
    series = [one(value, at_ms=NOW_MS + n, name=UTIL, UUID=f"GPU-{n}") for n, value in enumerate(values)]
    decoder = RemoteWrite()
    for _ in range(2):
        Decoded(decoder, body(series))
    found = decoder._clusters["c1"].order.split(series_of(series), decoder._clusters["c1"].by_bytes.get, learn=True)
    samples, odd = remote_write._fast(found.numbers, found.tails, found.lines)

    assert [] == odd and [(NOW_MS + n) * 1000 for n in range(4)] == samples.time_us.tolist()
    assert np.array(values).tobytes() == samples.value.tobytes()
