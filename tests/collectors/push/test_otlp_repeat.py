"""Scopes that repeat but for times and values: whatever comes, a decoder that remembers scopes reads what a new one reads."""

from __future__ import annotations

import struct
from collections.abc import Sequence

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from bench.otlp import CUMULATIVE, SUM, metric, point, request
from gpuwatch.collectors.push import otlp, otlp_repeat, otlp_series
from gpuwatch.collectors.push.otlp import Otlp
from gpuwatch.core.errors import UnreadableInput
from tests.collectors.push.test_otlp import ENERGY, GPU, NOW_US, RESOURCE, SM, UTIL, Decoded, one

STEP_US = 15_000_000
VALUES: list[float | int] = [0.0, 0.25, 1.0, float("nan"), float("inf"), 3, 0, struct.unpack("<d", b"\x19" * 8)[0]]
"""The last one looks like the tags of times."""
ATTRIBUTES = [
    GPU,
    {**GPU, "UUID": "GPU-b"},
    {**GPU, "UUID": "GPU-b", "pod": "train-0", "namespace": "nlp"},
    {**GPU, "UUID": "GPU-long" * 30},
    {"UUID": ""},
]
NAMES = [SM, UTIL, "up", "scrape_duration_seconds", ENERGY]
RESOURCES: list[dict[str, object]] = [RESOURCE, {**RESOURCE, "service.instance.id": "n2:9400"}]

reading = st.tuples(
    st.integers(0, len(ATTRIBUTES) - 1),
    st.sampled_from(VALUES),
    st.integers(-2, 1),
    st.sampled_from([0, 0, 0, NOW_US - 9 * STEP_US]),
    st.sampled_from([0, 0, 0, 0, 1]),
)
"""Attributes, value, steps late, start, flags."""
Reading = tuple[int, float | int, int, int, int]
of_metric = st.tuples(st.sampled_from(NAMES), st.lists(reading, max_size=4), st.sampled_from([0, 0, CUMULATIVE]))
of_resource = st.tuples(st.integers(0, 1), st.lists(of_metric, max_size=4))


def body(parts: list[tuple[int, list[tuple[str, list[Reading], int]]]], minute: int, turn: int) -> bytes:
    """A request; with each turn the values are other ones of VALUES, of the same type."""
    made = []
    for resource, metrics in parts:
        encoded = []
        for name, readings, kind in metrics:
            points = [
                point(
                    ATTRIBUTES[of], NOW_US + (minute + late) * STEP_US, other(value, turn), start_us=start, flags=flags
                )
                for of, value, late, start, flags in readings
            ]
            encoded.append(metric(name, points, SUM, kind) if kind else metric(name, points))
        made.append((RESOURCES[resource], encoded))
    return request(made)


def other(value: float, turn: int) -> float | int:
    alike = [one for one in VALUES if type(one) is type(value)]
    return alike[(alike.index(value) + turn) % len(alike)] if value in alike else value


def equal(known: Decoded, fresh: Decoded) -> None:
    """The same readings in any order, the same refusals, and where each was first met."""
    assert sorted(map(repr, fresh.readings)) == sorted(map(repr, known.readings))
    assert fresh.rejects.counts == known.rejects.counts
    assert fresh.contexts == known.contexts


@settings(max_examples=150, deadline=None)
@given(
    requests=st.lists(st.lists(of_resource, max_size=3), min_size=1, max_size=3),
    sent=st.lists(st.tuples(st.integers(0, 2), st.integers(0, 2)), min_size=2, max_size=8),
    scopes_max=st.sampled_from([1, 4]),
)
def test_a_remembered_scope_changes_no_reading(
    requests: list[list[tuple[int, list[tuple[str, list[Reading], int]]]]],
    sent: list[tuple[int, int]],
    scopes_max: int,
) -> None:
    """Times and values that change, ints and floats, starts, flags, other metrics beside those of DCGM, several scopes."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(otlp_series, "SCOPES_MAX", scopes_max)
        decoder = Otlp()
        for minute, (number, turn) in enumerate(sent):
            data = body(requests[number % len(requests)], minute, turn)
            equal(Decoded(decoder, data), Decoded(Otlp(), data))


def test_a_repeated_scope_is_not_parsed(monkeypatch: pytest.MonkeyPatch) -> None:
    """Also beside a metric of the collector itself."""

    def made(minute: int) -> bytes:
        gpus = [
            point({**GPU, "UUID": f"GPU-{n}"}, NOW_US + minute * STEP_US, minute / 100 + n / 1000) for n in range(8)
        ]
        up = [point({}, NOW_US + minute * STEP_US, 1)]
        return one(metric(SM, gpus), metric("up", up), metric(UTIL, gpus))

    decoder = Otlp()
    for minute in range(2):  # the first request has new series
        Decoded(decoder, made(minute))
    monkeypatch.setattr(otlp._Body, "_parse_scope", None)
    later = Decoded(decoder, made(7))
    monkeypatch.undo()

    equal(later, Decoded(Otlp(), made(7)))
    assert 16 == len(later.readings) and {"ignored: not a DCGM metric": 1} == later.rejects.counts


@pytest.mark.parametrize("at", range(0, 200, 7))
def test_a_scope_of_the_same_length_with_another_byte_is_parsed(at: int) -> None:
    """Whatever the byte is: a label, a length, a tag."""

    def made(minute: int, changed: int | None = None) -> bytes:
        data = bytearray(
            one(metric(SM, [point({**GPU, "UUID": f"GPU-{n}"}, NOW_US + minute * STEP_US, 0.5) for n in range(3)]))
        )
        if changed is not None:
            data[changed % len(data)] ^= 1
        return bytes(data)

    decoder = Otlp()
    for minute in range(3):
        Decoded(decoder, made(minute))
    results: list[Decoded | str] = []
    for each in (decoder, Otlp()):
        try:
            results.append(Decoded(each, made(3, at)))
        except UnreadableInput as error:
            results.append(str(error))
    known, fresh = results
    if isinstance(known, Decoded) and isinstance(fresh, Decoded):
        equal(known, fresh)
    else:
        assert known == fresh


def test_limits_hold_for_repeated_scopes(monkeypatch: pytest.MonkeyPatch) -> None:
    points = [point({**GPU, "UUID": f"GPU-{n}"}, NOW_US, 0.5) for n in range(6)]
    data = request([(RESOURCE, [metric(SM, points)]), (RESOURCE, [metric(UTIL, points)])])
    decoder = Otlp()
    for _ in range(3):
        assert 12 == len(Decoded(decoder, data).readings)

    for name, limit in (("MAX_SAMPLES", 10), ("MAX_PARTS", 5)):
        with monkeypatch.context() as patch:
            patch.setattr(otlp, name, limit)
            with pytest.raises(UnreadableInput, match=f"more than {limit} "):
                Decoded(decoder, data)


def test_remembered_scopes_have_a_bound() -> None:
    decoder = Otlp()
    sizes: Sequence[int] = [3, 4, 5, 6, 7, 8, 3]
    for _ in range(2):
        for many in sizes:
            points = [point({**GPU, "UUID": f"GPU-{n}"}, NOW_US, 0.5) for n in range(many)]
            Decoded(decoder, one(metric(SM, points)))
    known = decoder._clusters["c1"]
    (resource,) = known.resources.values()

    assert otlp_repeat.SCOPES_MAX == len(resource.scopes)
    assert known.size >= sum(scope.memory for scope in resource.scopes.values())


def test_a_scope_of_very_many_points_is_not_remembered(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(otlp_repeat, "POINTS_MAX", 5)
    points = [point({**GPU, "UUID": f"GPU-{n}"}, NOW_US, 0.5) for n in range(3)]
    decoder = Otlp()
    for _ in range(3):
        assert 6 == len(Decoded(decoder, one(metric(SM, points), metric(UTIL, points))).readings)
    (resource,) = decoder._clusters["c1"].resources.values()

    assert {} == resource.scopes
