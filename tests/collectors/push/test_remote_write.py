"""Remote-write 1.0 requests to contexts and points: what is kept, what is refused and why."""

from __future__ import annotations

import math
import struct
from collections.abc import Sequence
from contextlib import suppress
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from bench.remote_write import body, field, series_bytes
from gpuwatch.collectors.push import remote_write
from gpuwatch.collectors.push.remote_write import BAD_LABELS, BAD_REFERENCE, BAD_SERIES, NO_NAME, NOT_TEXT, RemoteWrite
from gpuwatch.collectors.push.remote_write_wire import varint
from gpuwatch.core.errors import UnreadableInput
from gpuwatch.core.model import Points, Records, Rejects
from gpuwatch.core.registry import make_receiver

NOW_MS = 1_795_226_909_123
TYPE = "application/x-protobuf"
TYPE_2 = "application/x-protobuf;proto=io.prometheus.write.v2.Request"
UTIL, SM = "DCGM_FI_DEV_GPU_UTIL", "DCGM_FI_PROF_SM_ACTIVE"
STALE = struct.unpack("<d", struct.pack("<Q", 0x7FF0000000000002))[0]

Series = tuple[dict[str, str], Sequence[tuple[float, int]]]
Reading = tuple[str, str, int, float]  # gpu, column, time in milliseconds, value


def labels(name: str = SM, **more: str) -> dict[str, str]:
    """The label set of a series."""
    return {"__name__": name, "UUID": "GPU-a", "gpu": "0", "Hostname": "n1", "instance": "n1:9400"} | more


def one(value: float, at_ms: int = NOW_MS, name: str = SM, **more: str) -> Series:
    """A series of one sample."""
    return labels(name, **more), [(value, at_ms)]


class Decoded:
    """What a request gave."""

    def __init__(self, decoder: RemoteWrite, data: bytes, cluster: str = "c1", content_type: str = TYPE) -> None:
        self.rejects = Rejects()
        self.contexts: dict[int, dict[str, Any]] = {}
        self.readings: list[Reading] = []
        for batch in decoder(data, content_type, cluster, NOW_MS * 1000, self.rejects):
            if isinstance(batch, Records):
                self.contexts |= {row["context_id"]: row for row in batch.rows.to_pylist()}
                continue
            series = {row["series"]: row for row in batch.series.to_pylist()}
            for point in batch.rows.to_pylist():
                of = series[point["series"]]
                gpu = self.contexts[of["context_id"]]["gpu"]
                self.readings.append((gpu, of["field"], point["observed_us"] // 1000, point["value"]))


def body_2(series: Sequence[Series], shift: int = 0) -> bytes:
    """The same as body() in version 2.0; `shift` unused symbols make other references."""
    symbols = [""] + [f"unused {number}" for number in range(shift)]
    encoded = b""
    for names, samples in series:
        texts = [text for pair in sorted(names.items()) for text in pair]
        symbols += [text for text in texts if text not in symbols]
        references = b"".join(varint(symbols.index(text)) for text in texts)
        encoded += field(5, field(1, references) + series_bytes({}, samples) + field(5, b"\x08\x02"))
    return b"".join(field(4, text.encode()) for text in symbols) + encoded


def decode(*series: Series) -> Decoded:
    """One request by a new decoder."""
    return Decoded(RemoteWrite(), body(series))


@pytest.mark.parametrize(
    "data",
    [
        pytest.param(b"", id="an empty body"),
        pytest.param(b"\x1a\x04\x08\x02\x12\x00", id="metadata only"),
        pytest.param(body([(labels(), [])]), id="a series without samples"),
    ],
)
def test_nothing_to_store_is_no_fault(data: bytes) -> None:
    got = Decoded(RemoteWrite(), data)

    assert ([], {}, 0) == (got.readings, got.contexts, got.rejects.total)


@pytest.mark.parametrize(
    ("data", "words"),
    [
        pytest.param(b'DCGM_FI_DEV_GPU_UTIL{gpu="0"} 1\n', r"not a write request of version 1\.0", id="text"),
        pytest.param(
            b"\x0a\xff\xff\xff\xff\x0f", r"not a write request of version 1\.0", id="a length beyond the body"
        ),
        pytest.param(body([one(0.5)])[:-3], r"not a write request of version 1\.0", id="a torn body"),
        pytest.param(b"\x22\x00\x22\x03abc", r"no field of a write request of version 1\.0", id="another message"),
    ],
)
def test_a_body_that_is_no_request_is_refused_whole(data: bytes, words: str) -> None:
    with pytest.raises(UnreadableInput, match=words):
        RemoteWrite()(data, TYPE, "c1", NOW_MS * 1000, Rejects())


def test_a_stale_marker_is_a_gap() -> None:
    decoder = RemoteWrite()
    got = [Decoded(decoder, body([one(STALE), one(0.5, name=UTIL)])) for _ in range(2)]

    assert [[("GPU-a", "gpu_util_ratio", NOW_MS, 0.005)]] * 2 == [g.readings for g in got]
    assert [0, 0] == [g.rejects.total for g in got]


@pytest.mark.parametrize("value", [0.0, 0.5, 1.0, -0.0], ids=str)
def test_a_series_is_read_alike_at_first_sight_and_later(value: float) -> None:
    decoder = RemoteWrite()
    first, second = (Decoded(decoder, body([one(value, NOW_MS + step)])) for step in (0, 15_000))

    assert [("GPU-a", "sm_active_ratio", NOW_MS, value)] == first.readings
    assert [("GPU-a", "sm_active_ratio", NOW_MS + 15_000, value)] == second.readings
    assert first.contexts == second.contexts


def test_contexts_come_with_each_request_of_their_series() -> None:
    """The request that brought them first may have been lost after it was decoded."""
    decoder = RemoteWrite()
    Decoded(decoder, body([one(0.5), one(0.5, UUID="GPU-b", gpu="1")]))
    got = Decoded(decoder, body([one(0.5, UUID="GPU-b", gpu="1")]))

    assert ["GPU-b"] == [row["gpu"] for row in got.contexts.values()]


def test_a_series_of_many_samples_keeps_them_all() -> None:
    decoder = RemoteWrite()
    many = body([(labels(), [(0.0, NOW_MS - 30_000), (0.0, NOW_MS - 15_000), (0.5, NOW_MS)])])
    expected = [("GPU-a", "sm_active_ratio", NOW_MS - back, v) for back, v in ((30_000, 0.0), (15_000, 0.0), (0, 0.5))]

    assert [expected, expected] == [Decoded(decoder, many).readings for _ in range(2)]


def test_two_zeros_of_a_known_series_are_not_taken_for_one_sample() -> None:
    """They are as long as one sample of another value."""
    decoder = RemoteWrite()
    Decoded(decoder, body([one(0.5)]))
    got = Decoded(decoder, body([(labels(), [(0.0, NOW_MS - 15_000), (0.0, NOW_MS)])]))

    assert [
        ("GPU-a", "sm_active_ratio", NOW_MS - 15_000, 0.0),
        ("GPU-a", "sm_active_ratio", NOW_MS, 0.0),
    ] == got.readings


def test_known_and_new_series_of_one_request_are_both_read() -> None:
    decoder = RemoteWrite()
    Decoded(decoder, body([one(0.5)]))
    got = Decoded(decoder, body([one(0.25, name=UTIL), one(0.75), one(0.0, UUID="GPU-b")]))

    assert {("gpu_util_ratio", 0.0025), ("sm_active_ratio", 0.75), ("sm_active_ratio", 0.0)} == {
        (column, value) for _, column, _, value in got.readings
    }


def test_what_is_not_dcgm_is_ignored_by_reason() -> None:
    decoder = RemoteWrite()
    got = [Decoded(decoder, body([one(1.0, name="node_load1"), one(1.0, name="DCGM_FI_NEW"), one(0.5)])) for _ in "ab"]
    expected = {"ignored: not a DCGM metric": 1, "ignored: DCGM field not known": 1}

    assert [expected, expected] == [g.rejects.counts for g in got]
    assert [1, 1] == [len(g.readings) for g in got]


@pytest.mark.parametrize(
    ("bad", "reason"),
    [
        pytest.param(one(math.nan), "not a number", id="NaN"),
        pytest.param(one(math.inf), "not a number", id="infinity"),
        pytest.param(one(1.5), "out of range", id="a ratio of 1.5"),
        pytest.param(one(140737488355328.0), "blank", id="DCGM's blank"),
        pytest.param(({"UUID": "GPU-a"}, [(0.5, NOW_MS)]), NO_NAME, id="no name"),
        pytest.param(({}, [(0.5, NOW_MS)]), NO_NAME, id="no label"),
        pytest.param(one(0.5, UUID="", Hostname=""), "no device label", id="no device"),
        pytest.param(one(0.5, **{f"l{k}": "x" for k in range(64)}), BAD_LABELS, id="too many labels"),
        pytest.param(one(0.5, pod="x" * 5000), BAD_LABELS, id="too long a label"),
    ],
)
def test_a_bad_sample_is_refused_by_reason_and_the_good_one_beside_it_kept(bad: Series, reason: str) -> None:
    decoder = RemoteWrite()
    got = [Decoded(decoder, body([bad, one(0.5, name=UTIL)])) for _ in range(2)]

    assert [{reason: 1}] * 2 == [g.rejects.counts for g in got]
    assert [[("GPU-a", "gpu_util_ratio", NOW_MS, 0.005)]] * 2 == [g.readings for g in got]


@pytest.mark.parametrize(
    ("series", "reason"),
    [
        pytest.param(b"", None, id="an empty series"),
        pytest.param(b"\x0a\x7fabc", BAD_SERIES, id="a label longer than its series"),
        pytest.param(b"\x0a\x03\x0a\x7fa\x12\x09\x09" + bytes(8), BAD_SERIES, id="a label that is no message"),
        pytest.param(b"\x0a\x06\x0a\x01a\x12\x01\xff\x12\x09\x09" + bytes(7) + b"\x40", NOT_TEXT, id="no UTF-8"),
        pytest.param(b"\x0a\x06\x0a\x01a\x12\x01x" * 2 + b"\x12\x09\x09" + bytes(8), BAD_LABELS, id="a label twice"),
    ],
)
def test_a_broken_series_does_not_harm_the_others(series: bytes, reason: str | None) -> None:
    data = b"\x0a" + bytes((len(series),)) + series + body([one(0.5)])
    got = Decoded(RemoteWrite(), data)

    assert ({} if reason is None else {reason: 1}) == got.rejects.counts
    assert [("GPU-a", "sm_active_ratio", NOW_MS, 0.5)] == got.readings


def test_unknown_fields_such_as_exemplars_and_histograms_are_skipped() -> None:
    plain = body([one(0.5)])
    data = field(1, series_bytes(*one(0.5)) + field(3, b"\x08\x01") + field(4, b""))
    decoder = RemoteWrite()

    assert [Decoded(decoder, plain).readings] * 2 == [Decoded(decoder, data).readings for _ in range(2)]


def test_clusters_are_kept_apart() -> None:
    decoder = RemoteWrite()
    devices = {
        row["device_id"]
        for cluster in ("c1", "c2", "c1")
        for row in Decoded(decoder, body([one(0.5)]), cluster).contexts.values()
    }

    assert 2 == len(devices)


@pytest.mark.parametrize("bound", ["MAX_SERIES", "MAX_SERIES_BYTES", "MAX_CLUSTERS"])
def test_a_full_cache_starts_afresh_with_the_same_result(monkeypatch: pytest.MonkeyPatch, bound: str) -> None:
    monkeypatch.setattr(remote_write, bound, 1)
    decoder = RemoteWrite()
    got = [Decoded(decoder, body([one(0.5), one(0.25, name=UTIL)]), cluster) for cluster in ("c1", "c2", "c1")]

    assert [2, 2, 2] == [len(g.readings) for g in got]
    assert 1 == len(decoder._clusters)


def test_too_many_samples_are_refused_whole(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(remote_write, "MAX_SAMPLES", 2)
    three = [(0.5, NOW_MS - step) for step in range(3)]

    for data in (body([(labels(), three)]), body([(labels(), three[:2]), one(0.5, name=UTIL)])):
        with pytest.raises(UnreadableInput, match="more than 2 samples .*max_samples_per_send"):
            Decoded(RemoteWrite(), data)


@pytest.mark.parametrize("uncounted", [0, 1 << 20], ids=["counted on the wire", "small enough not to be counted"])
@pytest.mark.parametrize("version", [1, 2])
def test_too_many_series_are_refused_whole(monkeypatch: pytest.MonkeyPatch, version: int, uncounted: int) -> None:
    monkeypatch.setattr(remote_write, "REQUEST_UNCOUNTED", uncounted)
    monkeypatch.setattr(remote_write, "MAX_SERIES_A_REQUEST", 2)
    series = [one(0.5, name=n) for n in (SM, UTIL, "x")]
    data, kind = (body(series), "") if version == 1 else (body_2(series), TYPE_2)

    with pytest.raises(UnreadableInput, match="more than 2 series .*max_samples_per_send"):
        Decoded(RemoteWrite(), data, content_type=kind)


@pytest.mark.parametrize(
    ("data", "kind", "words"),
    [
        pytest.param(b"\x0a\x00" * 600_000, "", "50000 series", id="empty series"),
        pytest.param(b"\x1a\x00" * 600_000, "", "100000 metadata entries", id="empty metadata"),
        pytest.param(b"\x7a\x00" * 1_100_000, "", "1000000 fields", id="unknown fields"),
        pytest.param(field(1, b"\x12\x00" * 600_000), "", "500000 samples", id="empty samples of a series"),
        pytest.param(b"\x22\x00" * 600_000, TYPE_2, "250000 symbols", id="empty symbols"),
        pytest.param(b"\x2a\x00" * 600_000, TYPE_2, "50000 series", id="empty series of version 2.0"),
    ],
)
def test_a_body_of_empty_parts_is_refused_before_it_is_built(data: bytes, kind: str, words: str) -> None:
    with pytest.raises(UnreadableInput, match=words):
        Decoded(RemoteWrite(), data, content_type=kind)


@pytest.mark.parametrize(
    ("data", "kind"),
    [
        pytest.param(field(1, b"\x0a\x00" * 100 + b"\x12\x00"), "", id="labels"),
        pytest.param(field(1, b"\x0a\x00" * 100_000 + b"\x12\x00"), "", id="very many labels"),
        pytest.param(field(1, field(1, bytes(10_000)) + b"\x12\x00"), "", id="a label of 10 kB"),
        pytest.param(field(5, field(1, bytes(100_000)) + b"\x12\x00"), TYPE_2, id="packed references"),
        pytest.param(field(5, b"\x08\x00" * 100_000 + b"\x12\x00"), TYPE_2, id="references"),
    ],
)
def test_a_series_of_too_many_labels_is_refused_alone(data: bytes, kind: str) -> None:
    good = body_2([one(0.5)], shift=1) if kind else body([one(0.5)])
    got = Decoded(RemoteWrite(), data + good, content_type=kind)

    assert ({BAD_LABELS: 1}, 1) == (got.rejects.counts, len(got.readings))


def test_too_large_a_body_is_refused_unread() -> None:
    with pytest.raises(UnreadableInput, match="max_samples_per_send"):
        Decoded(RemoteWrite(), bytes(remote_write.MAX_BODY_BYTES + 1))


@pytest.mark.parametrize("at_ms", [0, -1, NOW_MS // 1000, NOW_MS * 1000, (1 << 63) - 1, -(1 << 63)], ids=str)
def test_any_time_is_passed_on_or_cut_to_what_a_clock_holds(at_ms: int) -> None:
    """Whether it can be right is judged where all readings meet: in_time.py."""
    decoder = RemoteWrite()
    got = [Decoded(decoder, body([one(0.5, at_ms)])) for _ in range(2)]
    most = (1 << 63) // 1000 - 1

    assert [[max(min(at_ms, most), -most)]] * 2 == [[time for _, _, time, _ in g.readings] for g in got]


def test_version_2_gives_the_same_as_version_1() -> None:
    series = [one(0.5), one(0.0, name=UTIL), one(STALE, UUID="GPU-b"), one(1.0, name="up"), one(1.5, UUID="GPU-c")]
    series.append((labels(UUID="GPU-d"), [(0.25, NOW_MS - 15_000), (0.75, NOW_MS)]))
    decoder = RemoteWrite()
    expected = Decoded(decoder, body(series))
    got = [Decoded(decoder, body_2(series, shift), content_type=TYPE_2) for shift in (0, 200)]

    assert 4 == len(expected.readings)
    assert [sorted(expected.readings)] * 2 == [sorted(g.readings) for g in got]
    assert [expected.rejects.counts] * 2 == [g.rejects.counts for g in got]
    assert [expected.contexts] * 2 == [g.contexts for g in got]


@pytest.mark.parametrize(
    ("data", "words"),
    [
        pytest.param(body([one(0.5)]), r"no field of a write request of version 2\.0", id="a body of version 1.0"),
        pytest.param(b"text", r"not a write request of version 2\.0", id="text"),
    ],
)
def test_a_body_that_is_not_of_version_2_is_refused_whole(data: bytes, words: str) -> None:
    with pytest.raises(UnreadableInput, match=words):
        Decoded(RemoteWrite(), data, content_type=TYPE_2)


@pytest.mark.parametrize(
    "more",
    [
        pytest.param({f"l{k}": "x" for k in range(64)}, id="too many labels"),
        pytest.param({"pod": "x" * 5000}, id="too long a label"),
        pytest.param({f"l{k}": str(k) * 3000 for k in range(30)}, id="too much text in all"),
    ],
)
def test_version_2_has_the_bounds_of_labels(more: dict[str, str]) -> None:
    got = Decoded(RemoteWrite(), body_2([one(0.5, **more), one(0.5)]), content_type=TYPE_2)

    assert {BAD_LABELS: 1} == got.rejects.counts
    assert [("GPU-a", "sm_active_ratio", NOW_MS, 0.5)] == got.readings


@pytest.mark.parametrize(
    "references",
    [
        pytest.param(b"\x01", id="a name without a value"),
        pytest.param(b"\x00\x7f", id="beyond the table"),
        pytest.param(b"\xff\xff\xff\xff\x0f\x00", id="the largest number"),
    ],
)
def test_a_label_that_refers_to_nothing_harms_its_series_only(references: bytes) -> None:
    bad = field(5, field(1, references) + series_bytes(*({}, [(0.5, NOW_MS)])))
    got = Decoded(RemoteWrite(), body_2([one(0.5)]) + bad, content_type=TYPE_2)

    assert {BAD_REFERENCE: 1} == got.rejects.counts
    assert [("GPU-a", "sm_active_ratio", NOW_MS, 0.5)] == got.readings


GOOD = [one(0.5), one(0.0, name=UTIL), (labels(UUID="GPU-b"), [(0.25, NOW_MS - 15_000), (0.0, NOW_MS)])]


@settings(max_examples=200, deadline=None)
@given(version=st.sampled_from([1, 2]), data=st.data())
def test_damage_never_spoils_what_comes_after(version: int, data: st.DataObject) -> None:
    """Whatever a damaged body leaves in the cache, the next good one is read as by a new decoder."""
    good, kind = (body(GOOD), TYPE) if version == 1 else (body_2(GOOD), TYPE_2)
    decoder = RemoteWrite()
    for _ in range(data.draw(st.integers(1, 3))):
        damaged = bytearray(good)
        for _ in range(data.draw(st.integers(1, 3))):
            at = data.draw(st.integers(0, len(good) - 1))
            damaged[at : at + data.draw(st.integers(0, 2))] = data.draw(st.binary(max_size=2))
        with suppress(UnreadableInput):
            Decoded(decoder, bytes(damaged), content_type=kind)
    got = Decoded(decoder, good, content_type=kind)

    assert (sorted(Decoded(RemoteWrite(), good, content_type=kind).readings), 0) == (
        sorted(got.readings),
        got.rejects.total,
    )


def test_it_is_found_by_name() -> None:
    batches = make_receiver("remote-write")(body([one(0.5)]), TYPE, "c1", NOW_MS * 1000, Rejects())

    assert [1] == [batch.rows.num_rows for batch in batches if isinstance(batch, Points)]
