"""Messages of OTLP metrics, defined at run time: every level stays bytes until it is parsed."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from gpuwatch.collectors.push.remote_write_wire import described

MESSAGES = {
    "Request": (("resource_metrics", 1, "bytes*"),),
    "ResourceMetrics": (("resource", 1, "bytes"), ("scope_metrics", 2, "bytes*")),
    "ScopeMetrics": (("metrics", 2, "bytes*"),),
    "Resource": (("attributes", 1, "bytes*"),),
    "Metric": (
        ("name", 1, "bytes"),
        ("gauge", 5, "bytes"),
        ("sum", 7, "bytes"),
        ("histogram", 9, "bytes"),
        ("exponential_histogram", 10, "bytes"),
        ("summary", 11, "bytes"),
    ),
    "Numbers": (("data_points", 1, "bytes*"), ("temporality", 2, "int32"), ("is_monotonic", 3, "bool")),
    "Point": (
        ("start_ns", 2, "fixed64"),
        ("time_ns", 3, "fixed64"),
        ("as_double", 4, "double"),
        ("as_int", 6, "sfixed64"),
        ("attributes", 7, "bytes*"),
        ("flags", 8, "uint32"),
    ),
    "Pair": (("key", 1, "bytes"), ("value", 2, "Value")),
    "Value": (("text", 1, "bytes"), ("flag", 2, "bool"), ("whole", 3, "int64"), ("number", 4, "double")),
}
"""Fields as (name, number, type), numbered as in opentelemetry.proto.metrics.v1 and common.v1; other fields are skipped."""


@dataclass(frozen=True)
class Wire:
    """Message classes, and the exception of FromString for invalid bytes."""

    request: Any
    resource_metrics: Any
    scope_metrics: Any
    resource: Any
    metric: Any
    numbers: Any
    point: Any
    pair: Any
    broken: type[Exception]


def wire() -> Wire:
    """The messages, in a separate pool."""
    names = ("Request", "ResourceMetrics", "ScopeMetrics", "Resource", "Metric", "Numbers", "Point", "Pair")
    found, broken = described("otlp", MESSAGES, names, "proto2")
    request, resource_metrics, scope_metrics, resource, metric, numbers, point, pair = found
    return Wire(request, resource_metrics, scope_metrics, resource, metric, numbers, point, pair, broken)


def text_of(value: Any) -> str | None:
    """An attribute as label text; None for lists, maps and bytes. Raises UnicodeDecodeError."""
    if value.HasField("text"):
        return str(value.text.decode())
    if value.HasField("whole"):
        return str(value.whole)
    if value.HasField("flag"):
        return "true" if value.flag else "false"
    return f"{value.number:g}" if value.HasField("number") else None


def texts_of(wire: Wire, pairs: Any) -> list[tuple[str, str]]:
    """Attributes as text. Raises DecodeError or UnicodeDecodeError."""
    parsed = [wire.pair.FromString(pair) for pair in pairs]
    texts = ((pair.key.decode(), text_of(pair.value)) for pair in parsed)
    return [(name, text) for name, text in texts if text is not None]
