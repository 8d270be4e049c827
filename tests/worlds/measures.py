"""The measures of buckets that a test writes by hand."""

from __future__ import annotations

from collections.abc import Mapping
from decimal import Decimal
from fractions import Fraction

from gpuwatch.core.clock import HOUR_US
from gpuwatch.ledger.measures import AT_ROOF, AVOIDABLE, FREE, NOT_MEASURED, OUT_OF_SERVICE, WORKING, Measures
from gpuwatch.ledger.totals import Scale

MEMBERS = {
    "working": WORKING,
    "avoidable": AVOIDABLE,
    "free": FREE,
    "not_measured": (NOT_MEASURED,),
    "out_of_service": (OUT_OF_SERVICE,),
    "stranded": ("stranded",),
    "at_roof": AT_ROOF,
    "claimed": (),
}
SCALE = Scale(1, 2)


def measures_of(buckets: Mapping[str, tuple[Fraction, Decimal]]) -> Measures:
    """From GPU-hours and dollars by bucket."""
    row: dict[str, object] = {"currency": "USD", "lacks": False}
    for name, members in MEMBERS.items():
        mine = [buckets[bucket] for bucket in members if bucket in buckets]
        row[f"{name}_units"] = int(sum((hours for hours, _ in mine), Fraction(0)) * HOUR_US)
        row[f"{name}_amount"] = int(sum((Fraction(cost) for _, cost in mine), Fraction(0)) * SCALE.hour)
    return Measures.of([row], SCALE)
