"""OTLP metrics in JSON: names in camelCase, 64-bit numbers and times as text, as the specification has them."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from functools import partial
from typing import Any

from gpuwatch.collectors.dcgm.exposition import MAX_LABEL_VALUE_BYTES, MAX_LABELS
from gpuwatch.collectors.push.otlp_series import (
    MAX_SAMPLES,
    NAME,
    NO_VALUE,
    NOT_NUMBERS,
    RESOURCE_BYTES,
    STALE,
    Known,
    Metric,
    Readings,
    Resource,
)
from gpuwatch.collectors.shared.json_size import MAX_PARSED_BYTES, parsed_bytes
from gpuwatch.core.errors import UnreadableInput

MAX_JSON_BYTES = 8 * 1024 * 1024
"""Limit of a body: parsed JSON takes many times its size in memory."""
MAX_RESOURCE_ATTRIBUTES = 256
NUMBERS = ("gauge", "sum")
OTHERS = ("histogram", "exponentialHistogram", "summary")
BAD_JSON = "data point is not as OTLP writes it"
BAD_ATTRIBUTES = f"attribute twice, or beyond {MAX_LABELS} attributes or {MAX_LABEL_VALUE_BYTES} bytes a value"

Object = Mapping[str, Any]


def read(body: bytes, known: Known, readings: Readings) -> None:
    """Adds the readings of a body. Raises UnreadableInput if it is not an export request, or is too large."""
    if len(body) > MAX_JSON_BYTES or parsed_bytes(body) > MAX_PARSED_BYTES:
        raise UnreadableInput(
            f"{NAME}: more than {MAX_JSON_BYTES} bytes of JSON in one request, or {MAX_PARSED_BYTES} once parsed; send "
            "protobuf, or lower send_batch_max_size of the collector"
        )
    try:
        request = json.loads(body)
    except (ValueError, RecursionError) as error:
        raise UnreadableInput(f"{NAME}: the body is no JSON: {error}") from error
    if not isinstance(request, dict) or (request and not isinstance(request.get("resourceMetrics"), list)):
        raise UnreadableInput(f"{NAME}: the body has no list resourceMetrics")
    for resource_metrics in _objects(request, "resourceMetrics"):
        resource = resource_metrics.get("resource")
        pairs = list(_pairs(resource, MAX_RESOURCE_ATTRIBUTES) if isinstance(resource, dict) else ())
        attributes = {name: text for name, text in pairs if len(text) <= MAX_LABEL_VALUE_BYTES}
        key = tuple(attributes.items())
        if key not in known.resources:
            known.resources[key] = Resource(attributes)
            known.size += sum(len(name) + len(text) for name, text in key) + RESOURCE_BYTES
        for scope in _objects(resource_metrics, "scopeMetrics"):
            for metric in _objects(scope, "metrics"):
                _metric(metric, key, known, readings)


def _metric(metric: Object, resource: tuple[tuple[str, str], ...], known: Known, readings: Readings) -> None:
    """Adds the data points of a metric; those of histograms and summaries are refused."""
    name = metric.get("name")
    for kind in OTHERS:
        if isinstance(other := metric.get(kind), dict):
            count = len(list(_objects(other, "dataPoints")))
            readings.line += count
            readings.refuse(NOT_NUMBERS, count)
    for kind in NUMBERS:
        if not isinstance(numbers := metric.get(kind), dict):
            continue
        points = list(_objects(numbers, "dataPoints"))
        if not isinstance(name, str) or len(name) > MAX_LABEL_VALUE_BYTES:
            readings.refuse(BAD_JSON, len(points))
            continue
        if readings.line + len(points) > MAX_SAMPLES:
            raise UnreadableInput(f"{NAME}: more than {MAX_SAMPLES} data points in one request")
        of = known.metric(resource, name, name)
        delta = of.delta(kind == "sum", _temporality(numbers.get("aggregationTemporality")))
        _add_points(points, of, delta, known, readings)


def _add_points(points: list[Object], of: Metric, delta: bool | str, known: Known, readings: Readings) -> None:
    """Adds the readings of data points; the stale ones are gaps. A text for `delta` is the reason to refuse them all."""
    for point in points:
        readings.line += 1
        if isinstance(delta, str):
            readings.refuse(delta)
            continue
        try:
            if _whole(point.get("flags", 0)) & STALE:
                continue
            if (value := _value(point)) is None:
                readings.refuse(NO_VALUE)
                continue
            start_us, time_us = (_whole(point.get(k, 0)) // 1000 for k in ("startTimeUnixNano", "timeUnixNano"))
        except (ValueError, TypeError, OverflowError):
            readings.refuse(BAD_JSON)
            continue
        pairs = tuple(_pairs(point, MAX_LABELS + 1))
        if (number := of.by_attributes.get(pairs)) is None:
            size = sum(len(name) + len(text) for name, text in pairs)
            number = known.number(of, pairs, size, partial(_labels, pairs))
        readings.add(number, delta, start_us, time_us, value)


def _labels(pairs: tuple[tuple[str, str], ...]) -> dict[str, str] | str:
    found = dict(pairs)
    long = any(len(text.encode("utf-8", "replace")) > MAX_LABEL_VALUE_BYTES for text in found.values())
    return BAD_ATTRIBUTES if long or len(found) < len(pairs) or len(found) > MAX_LABELS else found


def _objects(of: Object, name: str) -> Iterator[Object]:
    listed = of.get(name)
    if isinstance(listed, list):
        yield from (each for each in listed if isinstance(each, dict))


def _pairs(of: Object, most: int) -> Iterator[tuple[str, str]]:
    """Attributes as text, at most that many, without lists, maps and bytes."""
    for number, attribute in enumerate(_objects(of, "attributes")):
        if number >= most:
            return
        key, value = attribute.get("key"), attribute.get("value")
        if isinstance(key, str) and isinstance(value, dict) and (text := _text(value)) is not None:
            yield key, text


def _text(value: Object) -> str | None:
    if isinstance(text := value.get("stringValue"), str):
        return text
    if isinstance(flag := value.get("boolValue"), bool):
        return "true" if flag else "false"
    if isinstance(whole := value.get("intValue"), str | int):
        return str(whole)
    number = value.get("doubleValue")
    return f"{number:g}" if isinstance(number, int | float) else None


def _value(point: Object) -> float | None:
    """Raises ValueError or OverflowError if it is not a number."""
    if (number := point.get("asDouble")) is not None:
        return float(number)  # "NaN" and "Infinity" are text in JSON
    return None if (whole := point.get("asInt")) is None else float(_whole(whole))


def _whole(value: object) -> int:
    """A 64-bit number, as text or not. Raises ValueError or TypeError."""
    if isinstance(value, str) and len(value) <= 20:
        return int(value)
    if isinstance(value, int) and not isinstance(value, bool):
        return value
    raise TypeError(f"not a whole number: {str(value)[:50]!r}")


def _temporality(value: object) -> int:
    names = {"AGGREGATION_TEMPORALITY_DELTA": 1, "AGGREGATION_TEMPORALITY_CUMULATIVE": 2}
    if isinstance(value, str):
        return names.get(value, 0)
    return value if isinstance(value, int) else 0
