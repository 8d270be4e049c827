"""Readings in long form to wide rows: one row a device, label set and instant, one column a field."""

from __future__ import annotations

import numpy as np
import pyarrow as pa

from gpuwatch.core.fields import columns
from gpuwatch.core.model import Points


def wide(points: Points) -> pa.Table:
    """Rows of `sample` with the columns that occur. Where a reading is repeated, the larger value counts.
    Readings of what is no column of fields.py are left out.
    """
    known = columns()
    series, rows = points.series, points.rows
    fields = series.column("field").combine_chunks().dictionary_encode()
    names = fields.dictionary.to_pylist()
    present = [name for name in known if name in names]
    place = np.array([present.index(name) if name in known else -1 for name in names], np.int32)
    numbers = series.column("series").to_numpy()
    size = int(numbers.max()) + 1 if len(numbers) else 0
    field_of, device_of, context_of = (np.zeros(size, kind) for kind in (np.int32, np.int64, np.int64))
    field_of[numbers] = place[fields.indices.to_numpy()]
    device_of[numbers] = series.column("device_id").to_numpy()
    context_of[numbers] = series.column("context_id").to_numpy()

    used, time = rows.column("series").to_numpy(), rows.column("observed_us").to_numpy()
    value = rows.column("value").to_numpy()
    if (place < 0).any():
        kept = field_of[used] >= 0
        used, time, value = used[kept], time[kept], value[kept]
    device, context = device_of[used], context_of[used]
    order = np.lexsort((context, device, time))
    device, context, time = device[order], context[order], time[order]
    begins = np.ones(len(order), bool)
    begins[1:] = (device[1:] != device[:-1]) | (context[1:] != context[:-1]) | (time[1:] != time[:-1])
    row = np.empty(len(order), np.int64)
    row[order] = np.cumsum(begins) - 1
    count = int(begins.sum())
    cells = np.full(len(present) * count, np.nan)
    np.fmax.at(cells, field_of[used] * count + row, value)

    arrays = [pa.array(device[begins]), pa.array(context[begins]), pa.array(time[begins])]
    for number, name in enumerate(present):
        values = cells[number * count : (number + 1) * count]
        if known[name].type == "BIGINT":
            missing = np.isnan(values)
            arrays.append(pa.array(np.rint(np.where(missing, 0.0, values)).astype(np.int64), mask=missing))
        else:
            arrays.append(pa.array(values, from_pandas=True))
    return pa.table(arrays, names=["device_id", "context_id", "observed_us", *present])
