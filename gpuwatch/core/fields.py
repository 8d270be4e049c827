"""The DCGM fields: lookup by any name, and conversion of raw values to the stored unit.

A value that DCGM marks as blank, that is not a number, outside the field's range, or not defined on a MIG instance
becomes NaN with a reason: unknown is not zero.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from gpuwatch.core.field import Field
from gpuwatch.core.field_data import TABLE

__all__ = ["FIELDS", "REASONS", "Field", "by_name", "code_of", "columns", "normalise", "normalise_codes"]

FIELDS: tuple[Field, ...] = TABLE
"""All known fields; the position in this tuple is the code of a field (see normalise_codes)."""

OK = 0
BLANK = 1
NOT_A_NUMBER = 2
OUT_OF_RANGE = 3
NOT_ON_MIG = 4
REASONS: tuple[str, ...] = ("", "blank", "not a number", "out of range", "not defined on a MIG instance")
"""Why a value was rejected, by the reason numbers of normalise_codes; 0 means accepted."""

INT32_BLANK = (2_147_483_632.0, 2_147_483_635.0)
FP64_BLANK = (140_737_488_355_328.0, 140_737_488_355_331.0)
INT64_BLANK = 9.223372036854774e18  # 0x7ffffffffffffff0 and its three neighbours are the same number as a float

Floats = NDArray[np.float64]


def by_name(name: str) -> Field | None:
    """The field of a metric name: old, new or 1.x spelling, in any case, with or without OpenMetrics' `_total`.

    None for an unknown name.
    """
    if name.endswith("_total") and name[:-6].isupper():
        name = name[:-6]  # a suffix, not a part of the name: PCIE_TX_BYTES_total is the rate PCIE_TX_BYTES
    key = name.upper()
    return _BY_NAME.get(key) or _BY_NAME.get(key.removesuffix("_TOTAL"))


def columns() -> dict[str, Field]:
    """All stored columns by name, in the order of the table."""
    return dict(_COLUMNS)


def code_of(field: Field) -> int:
    """The code of a field for normalise_codes."""
    return _CODES[field.name]


def normalise(field: Field, values: Floats, mig: bool = False) -> tuple[Floats, dict[str, int]]:
    """Raw values of a field in the stored unit, NaN if rejected, and the number of rejected ones by reason.

    `mig` means that the values are those of a MIG instance. The input is not changed.
    """
    codes = np.full(len(values), code_of(field), dtype=np.int16)
    stored, reasons = normalise_codes(codes, values, np.full(len(values), mig))
    found, counts = np.unique(reasons[reasons != OK], return_counts=True)
    return stored, {REASONS[int(reason)]: int(count) for reason, count in zip(found, counts, strict=True)}


def normalise_codes(
    codes: NDArray[np.int16], values: Floats, mig: NDArray[np.bool_]
) -> tuple[Floats, NDArray[np.uint8]]:
    """Raw values of many fields at once: `codes[i]` is the field of `values[i]`, `mig[i]` whether it is of an instance.

    Returns the values in their stored units, NaN if rejected, and the reason numbers (see REASONS).
    """
    stored = values / _DIVISOR[codes] * _MULTIPLIER[codes]
    high = _HIGH[codes]
    with np.errstate(invalid="ignore"):
        above = stored > high
        reasons = np.where(above & (stored > _SLACK[codes]) | (stored < _LOW[codes]), OUT_OF_RANGE, OK).astype(np.uint8)
        stored = np.where(above, high, stored)
        blank = (values >= INT64_BLANK) & (values < 1e19)
        blank |= (values >= FP64_BLANK[0]) & (_DOUBLE[codes] | (values <= FP64_BLANK[1]))
        blank |= (values >= INT32_BLANK[0]) & (values <= INT32_BLANK[1])
    reasons[blank] = BLANK
    reasons[~np.isfinite(values)] = NOT_A_NUMBER
    reasons[mig & ~_ON_MIG[codes]] = NOT_ON_MIG
    stored[reasons != OK] = np.nan
    return stored, reasons


def _index() -> dict[str, Field]:
    """Fields by upper-case name. Raises ValueError when two fields have the same name, column or id."""
    names: dict[str, Field] = {}
    seen: set[object] = set()
    for field in FIELDS:
        for key in (field.id, field.column):
            if key is not None and key in seen:
                raise ValueError(f"DCGM field table: {key!r} of {field.name} is not unique")
            seen.add(key)
        for name in (field.name, field.new_name, *field.aliases):
            if names.setdefault(name.upper(), field) is not field:
                raise ValueError(f"DCGM field table: name {name} belongs to {names[name.upper()].id} and {field.id}")
    return names


def _gather(attribute: str, dtype: Any) -> NDArray[Any]:
    return np.array([getattr(field, attribute) for field in FIELDS], dtype=dtype)


_BY_NAME = _index()
_COLUMNS = {field.column: field for field in FIELDS if field.column is not None}
_CODES = {field.name: code for code, field in enumerate(FIELDS)}
_DIVISOR = _gather("divisor", np.float64)
_MULTIPLIER = _gather("multiplier", np.float64)
_LOW = _gather("low", np.float64)
_HIGH = _gather("high", np.float64)
_SLACK = _gather("slack", np.float64)
_DOUBLE = _gather("wire_double", np.bool_)
_ON_MIG = _gather("on_mig", np.bool_)
