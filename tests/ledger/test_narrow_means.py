"""Means of windows that are added in 64 bits: those of all values that a field may have, and equal to the exact ones."""

from __future__ import annotations

import re

from gpuwatch.core import sqlfile
from gpuwatch.core.fields import columns
from gpuwatch.store.database import Store

WRITE = sqlfile.load("ledger/write_hours")
FIELDS_OF = {
    "g": ("gr_engine_ratio", "gpu_util_ratio"),
    "fp_active_ratio": ("fp16_active_ratio", "fp32_active_ratio", "fp64_active_ratio"),
    "link_ratio": (),  # at most 1 by its definition in ledger/piece.sql
}
"""The fields of samples that other columns of a piece come from."""


def narrowed() -> set[str]:
    """The columns of pieces and samples of which the ledger takes narrow means."""
    return {name for statement in WRITE for name in re.findall(r"narrow_mean\((\w+)\)", statement.text)} - {"x"}


def test_no_field_has_a_value_too_large_for_64_bits() -> None:
    fields = {field for name in narrowed() for field in FIELDS_OF.get(name, (name,))}

    assert {"power_watts", "sm_clock_mhz", "gpu_temp_celsius", "sm_active_ratio"} < fields
    assert [] == [name for name in sorted(fields) if columns()[name].high * 2**40 >= 2**63]


def test_a_narrow_mean_is_the_exact_one_bit_for_bit() -> None:
    (macro,) = (statement.text for statement in WRITE if "macro narrow_mean" in statement.text)
    with Store.open(None) as store:
        store.sql(macro)
        store.sql(
            "create temp table reading as select i % 7 as part,"
            " case when i % 11 > 0 then sin(i) * case i % 3 when 0 then 20000 when 1 then 1 else 1e-9 end end as x"
            " from range(5000) t(i) union all select 8, null"
        )
        found = store.sql("select narrow_mean(x), exact_mean(x) from reading group by part order by part")

    assert 8 == len(found)
    assert [] == [pair for pair in found if pair[0] != pair[1]]
    assert (None, None) == found[-1]
