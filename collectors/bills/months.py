"""Calendar months of times, which are the billing period of bills without one."""

from __future__ import annotations

import pyarrow as pa
import pyarrow.compute as pc


def month_start(at_us: pa.Array) -> pa.Array:
    """The first microsecond of the UTC month of a time."""
    return pc.floor_temporal(at_us.cast(pa.timestamp("us")), unit="month").cast(pa.int64())


def month_end(at_us: pa.Array) -> pa.Array:
    """The first microsecond of the next UTC month."""
    moment = at_us.cast(pa.timestamp("us"))
    return pc.ceil_temporal(moment, unit="month", ceil_is_strictly_greater=True).cast(pa.int64())
