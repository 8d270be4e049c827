"""Messages of Prometheus remote-write, defined at run time: series and labels stay bytes until they are parsed."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

PACKAGE = "gpuwatch"
MESSAGES = {
    "Request": (("timeseries", 1, "bytes*"), ("metadata", 3, "bytes*")),
    "Series": (("labels", 1, "bytes*"), ("samples", 2, "Sample*")),
    "Label": (("name", 1, "bytes"), ("value", 2, "bytes")),
    "Sample": (("value", 1, "double"), ("timestamp", 2, "int64")),
    "Request2": (("symbols", 4, "bytes*"), ("timeseries", 5, "bytes*")),
    "Series2": (("labels_refs", 1, "uint32*"), ("samples", 2, "Sample*")),
}
"""Fields as (name, number, type), `*` for repeated. Other fields, such as exemplars and histograms, are skipped.

The numbers are those of prometheus.WriteRequest (version 1.0) and io.prometheus.write.v2.Request (version 2.0), whose
messages are named with a 2 here. A message field may be read as bytes: on the wire they are the same.
"""


@dataclass(frozen=True)
class Wire:
    """Message classes, and the exception of FromString for invalid bytes."""

    request: Any
    series: Any
    label: Any
    request_2: Any
    series_2: Any
    broken: type[Exception]


def wire() -> Wire:
    """The messages, in a separate pool."""
    names = ("Request", "Series", "Label", "Request2", "Series2")
    (request, series, label, request_2, series_2), broken = described("remote_write", MESSAGES, names)
    return Wire(request, series, label, request_2, series_2, broken)


def described(
    file_name: str,
    messages: Mapping[str, tuple[tuple[str, int, str], ...]],
    wanted: Sequence[str],
    syntax: str = "proto3",
) -> tuple[list[Any], type[Exception]]:
    """Classes of the wanted messages, defined like MESSAGES, and the exception for invalid bytes.

    With syntax "proto2" every single field knows whether it was there.
    """
    # Imported here: every command loads the collectors, few receive anything.
    from google.protobuf import descriptor_pb2, descriptor_pool, message, message_factory  # type: ignore[import-untyped]

    kind = descriptor_pb2.FieldDescriptorProto
    file = descriptor_pb2.FileDescriptorProto(name=f"gpuwatch/{file_name}.proto", package=PACKAGE, syntax=syntax)
    for name, fields in messages.items():
        new = file.message_type.add(name=name)
        for field, number, of in fields:
            of_type = of.rstrip("*")
            of_message = of_type in messages
            new.field.add(
                name=field,
                number=number,
                type=kind.TYPE_MESSAGE if of_message else kind.Type.Value(f"TYPE_{of_type.upper()}"),
                label=kind.LABEL_REPEATED if of.endswith("*") else kind.LABEL_OPTIONAL,
                type_name=f".{PACKAGE}.{of_type}" if of_message else None,
            )
    pool = descriptor_pool.DescriptorPool()
    pool.Add(file)
    found = [message_factory.GetMessageClass(pool.FindMessageTypeByName(f"{PACKAGE}.{name}")) for name in wanted]
    return found, message.DecodeError


def varint(number: int) -> bytes:
    """A non-negative number as a protobuf varint."""
    if number < 0x80:
        return bytes((number,))
    return bytes((number & 0x7F | 0x80,)) + varint(number >> 7)
