"""OTLP requests to contexts and points, in protobuf and JSON: what is kept, what is refused and why."""

from __future__ import annotations

import json
import math
from collections.abc import Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from bench.otlp import CUMULATIVE, SUM, metric, point, request
from gpuwatch.collectors.push import otlp, otlp_json, otlp_series
from gpuwatch.collectors.push.otlp import BAD_PART, NOT_TEXT, Otlp
from gpuwatch.collectors.push.otlp_json import BAD_ATTRIBUTES, BAD_JSON
from gpuwatch.collectors.push.otlp_labels import series_labels
from gpuwatch.collectors.push.otlp_series import (
    DELTA_OF_GAUGE,
    LATE_DELTA,
    NO_TEMPORALITY,
    NO_VALUE,
    NOT_NUMBERS,
    OVERLAP,
)
from gpuwatch.core.errors import UnreadableInput
from gpuwatch.core.model import Records, Rejects
from gpuwatch.core.registry import make_receiver

NOW_US = 1_795_226_909_123_000
PROTOBUF, JSON = "application/x-protobuf", "application/json"
UTIL, SM, ENERGY = "DCGM_FI_DEV_GPU_UTIL", "DCGM_FI_PROF_SM_ACTIVE", "DCGM_FI_DEV_TOTAL_ENERGY_CONSUMPTION"
GPU = {"UUID": "GPU-a", "gpu": "0", "Hostname": "n1"}
RESOURCE = {"service.instance.id": "n1:9400", "service.name": "dcgm"}
DELTA = 1
NOTHING = "ignored: not a DCGM metric"


class Decoded:
    """What a request gave."""

    def __init__(self, decoder: Otlp, data: bytes, kind: str = PROTOBUF, cluster: str = "c1") -> None:
        self.rejects = Rejects()
        self.contexts: dict[int, dict[str, Any]] = {}
        self.readings: list[tuple[str, str, int, float]] = []
        for batch in decoder(data, kind, cluster, NOW_US, self.rejects):
            if isinstance(batch, Records):
                self.contexts |= {row["context_id"]: row for row in batch.rows.to_pylist()}
                continue
            series = {row["series"]: row for row in batch.series.to_pylist()}
            for row in batch.rows.to_pylist():
                of = series[row["series"]]
                self.readings.append(
                    (self.contexts[of["context_id"]]["gpu"], of["field"], row["observed_us"], row["value"])
                )


def one(*metrics: bytes, resource: Mapping[str, object] = RESOURCE) -> bytes:
    """A request of one resource."""
    return request([(resource, metrics)])


def gauge(value: float | None, name: str = SM, at_us: int = NOW_US, **more: Any) -> bytes:
    """A gauge of one data point of GPU-a."""
    return metric(name, [point({**GPU, **more.pop("labels", {})}, at_us, value, **more)])


def decode(*metrics: bytes, resource: Mapping[str, object] = RESOURCE) -> Decoded:
    return Decoded(Otlp(), one(*metrics, resource=resource))


BUSY = ("GPU-a", "sm_active_ratio", NOW_US, 0.5)


@pytest.mark.parametrize(
    ("data", "kind"),
    [
        pytest.param(b"", PROTOBUF, id="an empty body"),
        pytest.param(one(), PROTOBUF, id="a resource without metrics"),
        pytest.param(one(metric(SM, [])), PROTOBUF, id="a metric without data points"),
        pytest.param(one(gauge(None, flags=1)), PROTOBUF, id="the end of a series"),
        pytest.param(b"{}", JSON, id="an empty object"),
        pytest.param(
            b'{"resourceMetrics": [{"scopeMetrics": [{"metrics": [{}, 3]}]}, null]}', JSON, id="nothing in it"
        ),
    ],
)
def test_nothing_to_store_is_no_fault(data: bytes, kind: str) -> None:
    got = Decoded(Otlp(), data, kind)

    assert ([], {}, 0) == (got.readings, got.contexts, got.rejects.total)


@pytest.mark.parametrize(
    ("data", "kind", "words"),
    [
        pytest.param(b"DCGM_FI_DEV_GPU_UTIL 1\n", PROTOBUF, "is not an ExportMetricsServiceRequest", id="text"),
        pytest.param(one(gauge(0.5))[:-3], PROTOBUF, "is not an ExportMetricsServiceRequest", id="a torn body"),
        pytest.param(b"\x1a\x03abc", PROTOBUF, "no field of an Export", id="another message"),
        pytest.param(b"{", JSON, "is no JSON", id="torn JSON"),
        pytest.param(b"[" * 100_000, JSON, "is no JSON", id="JSON nested without end"),
        pytest.param(b"\xff\xfe", JSON, "is no JSON", id="JSON that is no text"),
        pytest.param(b"[]", JSON, "no list resourceMetrics", id="a list"),
        pytest.param(b'{"resource_metrics": []}', JSON, "no list resourceMetrics", id="names as in the proto file"),
    ],
)
def test_a_body_that_is_no_request_is_refused_whole(data: bytes, kind: str, words: str) -> None:
    with pytest.raises(UnreadableInput, match=words):
        Decoded(Otlp(), data, kind)


@pytest.mark.parametrize(
    ("value", "start_us"),
    [(0.5, 0), (0.0, 0), (-0.0, 0), (1, 0), (0, 0), (0.5, NOW_US - 15_000_000), (1, NOW_US - 15_000_000)],
    ids=str,
)
def test_a_series_is_read_alike_at_first_sight_and_later(value: float, start_us: int) -> None:
    decoder = Otlp()
    first, second = (
        Decoded(decoder, one(gauge(value, at_us=NOW_US + step, start_us=start_us))) for step in (0, 15_000_000)
    )

    assert [("GPU-a", "sm_active_ratio", NOW_US, float(value))] == first.readings
    assert [("GPU-a", "sm_active_ratio", NOW_US + 15_000_000, float(value))] == second.readings
    assert first.contexts == second.contexts


def test_the_end_of_a_series_is_a_gap() -> None:
    decoder = Otlp()
    got = [Decoded(decoder, one(gauge(0.5), gauge(None, UTIL, flags=1))) for _ in range(2)]

    assert [[BUSY]] * 2 == [g.readings for g in got]
    assert [0, 0] == [g.rejects.total for g in got]


@pytest.mark.parametrize("name", [SM, SM.lower(), "dcgm.fi.prof.sm.active", "dcgm_fi_prof_sm_active"])
def test_a_metric_may_be_lower_case_or_have_dots(name: str) -> None:
    assert [BUSY] == decode(gauge(0.5, name)).readings


def test_counters_are_known_with_and_without_their_suffix() -> None:
    sums = [metric(f"{ENERGY}{end}", [point(GPU, NOW_US, 7.0)], SUM, CUMULATIVE) for end in ("", "_total")]

    assert [("GPU-a", "energy_mj", NOW_US, 7.0)] * 2 == decode(*sums).readings


def test_what_is_not_dcgm_and_what_is_no_number_is_ignored_by_reason() -> None:
    decoder = Otlp()
    others = [metric(SM, [point(GPU, NOW_US, 1.0)] * 2, kind) for kind in (9, 10, 11)]
    got = [Decoded(decoder, one(gauge(1.0, "up"), *others, gauge(0.5))) for _ in range(2)]

    assert [{NOTHING: 1, NOT_NUMBERS: 6}] * 2 == [g.rejects.counts for g in got]
    assert [[BUSY]] * 2 == [g.readings for g in got]


@pytest.mark.parametrize(
    ("bad", "reason"),
    [
        pytest.param(gauge(math.nan), "not a number", id="NaN"),
        pytest.param(gauge(1.5), "out of range", id="a ratio of 1.5"),
        pytest.param(gauge(140737488355328.0), "blank", id="DCGM's blank"),
        pytest.param(gauge(None), NO_VALUE, id="no value"),
        pytest.param(gauge(0.5, labels={"UUID": "", "Hostname": ""}), "no device label", id="no device"),
        pytest.param(gauge(0.5, labels={f"l{k}": "x" for k in range(64)}), BAD_ATTRIBUTES, id="too many attributes"),
        pytest.param(gauge(0.5, labels={"pod": "x" * 5000}), BAD_ATTRIBUTES, id="too long an attribute"),
        pytest.param(metric(SM, [b"\xff\xff"]), BAD_PART, id="a data point that is none"),
        pytest.param(
            metric(SM, [point({"UUID": "GPU-q"}, NOW_US, 0.5).replace(b"GPU-q", b"\xff\xfe\xfd\xfc\xfb")]),
            NOT_TEXT,
            id="no UTF-8",
        ),
        pytest.param(metric(SM, [point(GPU, NOW_US, 0.5)], SUM, DELTA), DELTA_OF_GAUGE, id="increments of a gauge"),
        pytest.param(metric(ENERGY, [point(GPU, NOW_US, 5.0)], SUM), NO_TEMPORALITY, id="a sum of nobody knows what"),
    ],
)
def test_a_bad_data_point_is_refused_by_reason_and_the_good_one_beside_it_kept(bad: bytes, reason: str) -> None:
    decoder = Otlp()
    got = [Decoded(decoder, one(bad, gauge(50.0, UTIL))) for _ in range(2)]

    assert [{reason: 1}] * 2 == [g.rejects.counts for g in got]
    assert [[("GPU-a", "gpu_util_ratio", NOW_US, 0.5)]] * 2 == [g.readings for g in got]


@pytest.mark.parametrize("time_ns", [0, 1, (1 << 64) - 1], ids=str)
def test_any_time_is_passed_on(time_ns: int) -> None:
    decoder = Otlp()
    data = one(gauge(0.5).replace((NOW_US * 1000).to_bytes(8, "little"), time_ns.to_bytes(8, "little")))

    assert [[time_ns // 1000]] * 2 == [[r[2] for r in Decoded(decoder, data).readings] for _ in range(2)]


def test_parts_that_are_broken_do_not_harm_the_others() -> None:
    good = one(gauge(0.5))
    broken = b"\x0a\x02\x12\x7f" + b"\x0a\x04\x12\x02\x12\x7f"
    got = Decoded(Otlp(), broken + good)

    assert ({BAD_PART: 2}, [BUSY]) == (got.rejects.counts, got.readings)


# Increments.


def energy(*points: tuple[int, int, float]) -> bytes:
    """Increments (start, end, value) of the energy of GPU-a, seconds after NOW."""
    return metric(
        ENERGY,
        [point(GPU, NOW_US + end * 1_000_000, value, NOW_US + start * 1_000_000) for start, end, value in points],
        SUM,
        DELTA,
    )


@pytest.mark.parametrize(
    ("requests", "expected", "reasons"),
    [
        pytest.param([[(0, 15, 5.0)], [(15, 30, 7.0)]], [5.0, 12.0], {}, id="add up"),
        pytest.param([[(0, 15, 5.0), (15, 30, 7.0)]], [5.0, 12.0], {}, id="add up within one request"),
        pytest.param([[(0, 15, 5.0)], [(0, 15, 5.0)], [(15, 30, 7.0)]], [5.0, 5.0, 12.0], {}, id="sent again"),
        pytest.param([[(0, 15, 5.0)], [(30, 45, 7.0)]], [5.0, 7.0], {}, id="after a hole they begin anew"),
        pytest.param([[(15, 30, 5.0)], [(0, 15, 7.0)]], [5.0], {LATE_DELTA: 1}, id="out of order"),
        pytest.param([[(0, 15, 5.0)], [(10, 30, 7.0)]], [5.0], {OVERLAP: 1}, id="counted twice by two senders"),
    ],
)
def test_increments_of_a_counter(
    requests: list[list[tuple[int, int, float]]], expected: list[float], reasons: dict[str, int]
) -> None:
    decoder = Otlp()
    got = [Decoded(decoder, one(energy(*points))) for points in requests]

    assert expected == [value for g in got for _, _, _, value in g.readings]
    assert reasons == {reason: count for g in got for reason, count in g.rejects.counts.items()}


def test_sums_are_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(otlp_series, "MAX_DELTAS", 1)
    decoder = Otlp()
    other = metric(ENERGY, [point({**GPU, "UUID": "GPU-b"}, NOW_US, 9.0)], SUM, DELTA)
    got = Decoded(decoder, one(energy((0, 15, 5.0)), other, energy((15, 30, 7.0))))

    assert [5.0, 9.0, 7.0] == [value for *_, value in got.readings]


# Labels.


@pytest.mark.parametrize(
    ("resource", "labels", "expected"),
    [
        pytest.param({"service.instance.id": "n1:9400"}, {"UUID": "a"}, {"node": "n1", "pod": None}, id="a target"),
        pytest.param(
            {"service.instance.id": "10.0.0.1:9400", "k8s.node.name": "n7"},
            {"UUID": "a", "Hostname": "exporter-pod"},
            {"node": "n7"},
            id="the node of the exporter wins over its host name",
        ),
        pytest.param({"host.name": "gateway"}, {"UUID": "a", "Hostname": "n1"}, {"node": "n1"}, id="host.name is last"),
        pytest.param({"host.name": "n3"}, {"UUID": "a"}, {"node": "n3"}, id="host.name where nothing else is"),
        pytest.param(
            {"service.instance.id": "n1:9400", "k8s.pod.name": "exporter-x", "k8s.namespace.name": "gpu"},
            {"UUID": "a"},
            {"pod": None, "namespace": None},
            id="the exporter's own pod holds no GPU",
        ),
        pytest.param(
            {"k8s.pod.name": "nvidia-dcgm-exporter-abc", "k8s.namespace.name": "gpu"},
            {"UUID": "a"},
            {"pod": None, "namespace": None},
            id="nor does one that is called so",
        ),
        pytest.param(
            {"service.instance.id": "n1:9400", "k8s.pod.name": "exporter-x", "k8s.namespace.name": "gpu"},
            {"UUID": "a", "pod": "train-0", "namespace": "lab", "container": "c"},
            {"pod": "train-0", "namespace": "lab", "container": "c"},
            id="the pod of the data point is the workload",
        ),
        pytest.param(
            {"k8s.pod.name": "other", "k8s.container.name": "x"},
            {"UUID": "a", "exported_pod": "train-0"},
            {"pod": "train-0", "container": None},
            id="a workload is not put together from two",
        ),
        pytest.param(
            {"k8s.pod.name": "train-0", "k8s.namespace.name": "lab", "k8s.pod.uid": "u", "k8s.container.name": "c"},
            {"UUID": "a"},
            {"pod": "train-0", "namespace": "lab", "pod_uid": "u", "container": "c"},
            id="a pod that sends its own readings",
        ),
        pytest.param(
            {}, {"gpu.uuid": "a", "gpu.number": 3, "gpu.model": "H100", "k8s.node.name": "n1"},
            {"gpu": "a", "gpu_index": 3, "model": "H100", "node": "n1"},
            id="names with dots",
        ),
        pytest.param(
            {}, {"uuid": "a", "gpu_i_id": 7, "gpu_i_profile": "1g.10gb", "hostname": "n1"},
            {"gpu": "a", "gi": 7, "profile": "1g.10gb", "node": "n1"},
            id="names in lower case",
        ),
    ],
)  # fmt: skip
def test_whose_a_reading_is(
    resource: dict[str, object], labels: dict[str, object], expected: dict[str, object]
) -> None:
    got = decode(metric(SM, [point(labels, NOW_US, 0.5)]), resource=resource)
    (context,) = got.contexts.values()

    assert expected == {name: context[name] for name in expected}


def test_a_label_of_the_data_point_comes_before_the_resource() -> None:
    assert {"node": "n1", "x": "1"} == series_labels({"k8s.node.name": "n2", "x": "2"}, {"node": "n1", "x": "1"})


# JSON.


def spelled(value: object) -> dict[str, object]:
    if isinstance(value, bool):
        return {"boolValue": value}
    if isinstance(value, int):
        return {"intValue": str(value)}
    return {"doubleValue": value} if isinstance(value, float) else {"stringValue": value}


def attributes(pairs: Mapping[str, object]) -> list[dict[str, object]]:
    return [{"key": key, "value": spelled(value)} for key, value in pairs.items()]


def in_json(*metrics: dict[str, object], resource: Mapping[str, object] = RESOURCE) -> bytes:
    whole = {"resource": {"attributes": attributes(resource)}, "scopeMetrics": [{"metrics": list(metrics)}]}
    return json.dumps({"resourceMetrics": [whole]}).encode()


def json_gauge(name: str = SM, **more: object) -> dict[str, object]:
    standard = {"attributes": attributes(GPU), "timeUnixNano": str(NOW_US * 1000), "asDouble": 0.5} | more
    return {"name": name, "gauge": {"dataPoints": [{k: v for k, v in standard.items() if v is not None}]}}


def test_json_gives_the_same_as_protobuf() -> None:
    decoder = Otlp()
    ints = json_gauge(UTIL, asDouble=None, asInt="50")
    summed = {
        "name": ENERGY,
        "sum": {"aggregationTemporality": 2, "isMonotonic": True, "dataPoints": json_gauge()["gauge"]["dataPoints"]},  # type: ignore[index]
    }
    expected = Decoded(
        decoder, one(gauge(0.5), gauge(50, UTIL), metric(ENERGY, [point(GPU, NOW_US, 0.5)], SUM, CUMULATIVE))
    )
    got = [Decoded(decoder, in_json(json_gauge(), ints, summed), JSON) for _ in range(2)]

    assert 3 == len(expected.readings)
    assert [sorted(expected.readings)] * 2 == [sorted(g.readings) for g in got]
    assert [expected.contexts] * 2 == [g.contexts for g in got]


@pytest.mark.parametrize(
    ("bad", "reason"),
    [
        pytest.param({"asDouble": "much"}, BAD_JSON, id="a value that is no number"),
        pytest.param({"asDouble": "NaN"}, "not a number", id="NaN as text"),
        pytest.param({"asDouble": None, "asInt": "1e3"}, BAD_JSON, id="no whole number"),
        pytest.param({"asDouble": None, "asInt": 10**400}, BAD_JSON, id="a number beyond all"),
        pytest.param({"asDouble": None}, NO_VALUE, id="no value"),
        pytest.param({"timeUnixNano": {}}, BAD_JSON, id="a time that is an object"),
        pytest.param({"timeUnixNano": "9" * 21}, BAD_JSON, id="a time of 21 digits"),
        pytest.param({"attributes": attributes({f"l{k}": "x" for k in range(65)})}, BAD_ATTRIBUTES, id="too many"),
        pytest.param({"attributes": attributes({"pod": "x" * 5000})}, BAD_ATTRIBUTES, id="too long"),
        pytest.param({"attributes": attributes(GPU) * 2}, BAD_ATTRIBUTES, id="an attribute twice"),
        pytest.param({"attributes": 3}, "no device label", id="attributes that are none"),
    ],
)
def test_a_bad_data_point_in_json_is_refused_alone(bad: dict[str, object], reason: str) -> None:
    got = Decoded(Otlp(), in_json(json_gauge(**bad), json_gauge()), JSON)

    assert ({reason: 1}, [BUSY]) == (got.rejects.counts, got.readings)


def test_the_example_of_the_specification_holds_nothing_of_ours(shared: Path) -> None:
    body = (shared / "wire/prometheus/otlp_metrics.json").read_bytes()

    assert {NOTHING: 2, NOT_NUMBERS: 2} == Decoded(Otlp(), body, JSON).rejects.counts


def test_the_example_with_our_names_is_read(shared: Path) -> None:
    """Its sum is an increment, its gauge a number."""
    text = (shared / "wire/prometheus/otlp_metrics.json").read_text()
    text = text.replace("my.counter.attr", "UUID").replace("my.gauge.attr", "UUID")
    text = text.replace('"my.counter"', f'"{ENERGY}"').replace('"my.gauge"', '"DCGM_FI_DEV_GPU_TEMP"')
    got = Decoded(Otlp(), text.encode(), JSON)
    at_us = 1_544_712_660_300_000

    assert [("some value", "energy_mj", at_us, 5.0), ("some value", "gpu_temp_celsius", at_us, 10.0)] == got.readings


# Bounds.


def test_clusters_are_kept_apart() -> None:
    decoder = Otlp()
    contexts = {
        row["device_id"]
        for c in ("c1", "c2", "c1")
        for row in Decoded(decoder, one(gauge(0.5)), cluster=c).contexts.values()
    }

    assert 2 == len(contexts)


@pytest.mark.parametrize("bound", ["MAX_SERIES", "MAX_SERIES_BYTES", "MAX_CLUSTERS"])
def test_a_full_cache_starts_afresh_with_the_same_result(monkeypatch: pytest.MonkeyPatch, bound: str) -> None:
    monkeypatch.setattr(otlp, bound, 1)
    decoder = Otlp()
    got = [Decoded(decoder, one(gauge(0.5), gauge(25.0, UTIL)), cluster=cluster) for cluster in ("c1", "c2", "c1")]

    assert [2, 2, 2] == [len(g.readings) for g in got]
    assert 1 == len(decoder._clusters)


@pytest.mark.parametrize(
    ("data", "kind", "bound"),
    [
        pytest.param(one(metric(SM, [point(GPU, NOW_US, 0.5)] * 3)), PROTOBUF, (otlp, "MAX_SAMPLES"), id="data points"),
        pytest.param(one(*[metric("up", [])] * 3), PROTOBUF, (otlp, "MAX_PARTS"), id="metrics"),
        pytest.param(bytes(40), PROTOBUF, (otlp, "MAX_BODY_BYTES"), id="bytes"),
        pytest.param(in_json(*[json_gauge()] * 3), JSON, (otlp_json, "MAX_SAMPLES"), id="data points in JSON"),
        pytest.param(in_json(*[json_gauge()] * 3), JSON, (otlp_json, "MAX_JSON_BYTES"), id="bytes of JSON"),
        pytest.param(in_json(*[json_gauge()] * 3), JSON, (otlp_json, "MAX_PARSED_BYTES"), id="memory of JSON"),
        pytest.param(
            one(*[metric(SM, [point(GPU | {"pod": f"p{n}"}, NOW_US, 0.5) for n in range(3)])]),
            PROTOBUF,
            (otlp_series, "MAX_NEW_SERIES"),
            id="new series",
        ),
    ],
)
def test_too_much_is_refused_whole(monkeypatch: pytest.MonkeyPatch, data: bytes, kind: str, bound: Any) -> None:
    monkeypatch.setattr(*bound, 2)

    with pytest.raises(UnreadableInput, match="more than 2 |or 2 once parsed"):
        Decoded(Otlp(), data, kind)


def test_it_is_found_by_name() -> None:
    assert isinstance(make_receiver("otlp"), Otlp)


GOOD = request(
    [
        (RESOURCE, [gauge(0.5), gauge(50, UTIL), metric(SM, [point({"UUID": g}, NOW_US, 0.25) for g in ("b", "c")])]),
        ({"k8s.node.name": "n2"}, [gauge(0.0), energy((0, 15, 5.0))]),
    ]
)


@settings(max_examples=200, deadline=None)
@given(data=st.data())
def test_damage_never_spoils_what_comes_after(data: st.DataObject) -> None:
    """Whatever a damaged body leaves in the cache, the next good one is read as by a new decoder (sums apart)."""
    decoder = Otlp()
    for _ in range(data.draw(st.integers(1, 3))):
        damaged = bytearray(GOOD)
        for _ in range(data.draw(st.integers(1, 3))):
            at = data.draw(st.integers(0, len(GOOD) - 1))
            damaged[at : at + data.draw(st.integers(0, 2))] = data.draw(st.binary(max_size=2))
        with suppress(UnreadableInput):
            Decoded(decoder, bytes(damaged))
    expected, got = Decoded(Otlp(), GOOD), Decoded(decoder, GOOD)

    assert without_sums(expected.readings) == without_sums(got.readings)
    assert expected.contexts == got.contexts


def without_sums(readings: Sequence[tuple[str, str, int, float]]) -> list[tuple[str, str, int, float]]:
    return sorted(reading for reading in readings if reading[1] != "energy_mj")
