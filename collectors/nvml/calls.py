"""Calls of NVML functions with errors as None, since drivers and libraries differ in what they support."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

ANY_INSTANCE = 0xFFFF_FFFF
"""The GPU-instance id of something that belongs to the whole card; pynvml has had a name for it since 13.615."""

Readings = dict[str, int | float]


class GpuGone(Exception):
    """The GPU fell off the bus: its readings in this round are dropped."""


def query(library: Any, name: str, *arguments: Any, **named: Any) -> Any:
    """The result of an NVML function, with text decoded; None if it fails or is missing in this driver or library.

    Raises GpuGone when the GPU is lost.
    """
    return try_call(library, lambda: getattr(library, name)(*arguments, **named))


def succeeds(library: Any, name: str, *arguments: Any) -> bool:
    """Whether an NVML function without a result succeeds. Raises GpuGone when the GPU is lost."""
    return try_call(library, lambda: (getattr(library, name)(*arguments), True)) is not None


def try_call(library: Any, call: Callable[[], Any]) -> Any:
    """Like `query`, for any callable."""
    try:
        value = call()
    except library.NVMLError as error:
        if error.value == library.NVML_ERROR_GPU_IS_LOST:
            raise GpuGone(str(error)) from error
        return None
    except (AttributeError, ValueError):
        return None
    return text(value) if isinstance(value, bytes) else value


def text(value: str | bytes) -> str:
    """The text, which some versions of the library return as bytes."""
    return value.decode("utf-8", "replace") if isinstance(value, bytes) else value


def field_values(library: Any, gpu: Any, wanted: list[tuple[int, int]]) -> dict[tuple[int, int], int | float]:
    """Numbers by (field id, scope) in one call, without those that the driver does not support. Raises GpuGone."""
    values = query(library, "nvmlDeviceGetFieldValues", gpu, wanted)
    found: dict[tuple[int, int], int | float] = {}
    for key, value in zip(wanted, values or (), strict=False):
        if value.nvmlReturn == library.NVML_ERROR_GPU_IS_LOST:
            raise GpuGone("the GPU is lost according to a field")
        if value.nvmlReturn == 0 and (number := _number(library, value)) is not None:
            found[key] = number
    return found


def _number(library: Any, field: Any) -> int | float | None:
    members = {
        library.NVML_VALUE_TYPE_DOUBLE: "dVal",
        library.NVML_VALUE_TYPE_UNSIGNED_INT: "uiVal",
        library.NVML_VALUE_TYPE_UNSIGNED_LONG: "ulVal",
        library.NVML_VALUE_TYPE_UNSIGNED_LONG_LONG: "ullVal",
        library.NVML_VALUE_TYPE_SIGNED_LONG_LONG: "sllVal",
        library.NVML_VALUE_TYPE_SIGNED_INT: "siVal",
        library.NVML_VALUE_TYPE_UNSIGNED_SHORT: "usVal",
    }
    member = members.get(field.valueType)
    if member is None:
        return None
    number: int | float = getattr(field.value, member)
    return number
