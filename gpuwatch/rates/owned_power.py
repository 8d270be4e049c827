"""Measures the power draw of owned GPUs once and records it with its source."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from decimal import Decimal
from fractions import Fraction
from typing import Any

from gpuwatch.core.clock import HOUR_US, Window, rfc3339
from gpuwatch.core.errors import UsageError
from gpuwatch.core.money import fraction_to_decimal
from gpuwatch.rates.csv_table import plain
from gpuwatch.rates.models import ANY_MODEL, device_tokens, model_tokens
from gpuwatch.rates.owned import Owned
from gpuwatch.store.database import Store

SILENCE_US = HOUR_US
"""Longest gap of an energy counter that is bridged: over a longer one it may have been reset."""
WATTS_MAX = 5000
"""An upper bound on the power draw of any GPU."""
KW_PLACES = 6
"""Kilowatts are stored to the milliwatt."""


def measured(store: Store, hardware: Sequence[Owned], window: Window, *, again: bool = False) -> list[Owned]:
    """The same hardware, with the mean power of its GPUs in the window where it is to be measured (with `again`: everywhere).

    Mean power is energy / time of the energy counter (DCGM field 156), of the power readings where a GPU gives no counter,
    over every GPU of its model, cluster and pool; times its `gpus`. Raises UsageError where nothing measures one of them.
    """
    if not again and all(one.kw is not None for one in hardware):
        return list(hardware)
    rows = store.rows(
        "rates/energy", start_us=window.start_us, end_us=window.end_us, silence_us=SILENCE_US, watts_max=WATTS_MAX
    )
    return [_measured(one, rows, window) if again or one.kw is None else one for one in hardware]


def _measured(one: Owned, rows: Sequence[dict[str, Any]], window: Window) -> Owned:
    means: list[Fraction] = []
    counted = covered_us = 0
    for row in rows:
        if not _is_of(one, row):
            continue
        if row["counted_us"]:
            means.append(Fraction(row["spent_mj"], row["counted_us"]) * 1000)  # mJ / µs is kW
            counted += 1
            covered_us += row["counted_us"]
        elif row["felt_us"]:
            means.append(Fraction(row["watt_us"]) / row["felt_us"])
            covered_us += row["felt_us"]
    span = f"{rfc3339(window.start_us)} to {rfc3339(window.end_us)}"
    if not means:
        raise UsageError(
            f"owned {one.name!r}: no GPU of model {one.gpu_model} gives energy or power from {span}; choose another "
            "window, or write its kw"
        )
    # Each GPU counts alike, however long it was measured.
    watts = sum(means, Fraction(0)) / len(means)
    kw = fraction_to_decimal(watts * one.gpus / 1000, KW_PLACES)
    covered = covered_us / (len(means) * (window.end_us - window.start_us))
    sources = [f"energy counter (field 156) of {counted} GPUs"] if counted else []
    sources += [f"power readings (field 155) of {len(means) - counted} GPUs"] if len(means) > counted else []
    source = f"{' and '.join(sources)}, {span}, {100 * covered:.1f} % of it measured, mean {float(watts):.3f} W a GPU"
    return replace(one, kw=Decimal(plain(kw)), kw_source=source)


def _is_of(one: Owned, row: dict[str, Any]) -> bool:
    model = row["model"] or ""
    named = one.gpu_model == ANY_MODEL or one.gpu_model.casefold() == model.casefold()
    named = named or model_tokens(one.gpu_model) <= device_tokens(model)
    return named and one.cluster in (None, row["cluster"]) and one.pool in (None, row["pool"])
