"""Numbered series: the device, context and field of each number, and the conversion of samples to points.

Shared by text files, live scrapes and remote write, each of which looks up the number of a series by its own key.
"""

from __future__ import annotations

from array import array
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import cast

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from gpuwatch.collectors.shared.device_labels import context_row, field_of
from gpuwatch.core import fields
from gpuwatch.core.model import CONTEXT, POINT, SERIES, WHOLE_GPU, Points, Records, Rejects

FEW = 16
"""With this many times fewer samples than series, the used numbers are found by sorting, otherwise by counting."""

MAX_RECENT = 8_192
"""Label sets in the cache: the fields of a device share one, so most look-ups hit."""

MAX_TABLES, MAX_TABLE_BYTES = 64, 32 * 1024
"""Tables of series or contexts in the cache, and the maximum size of a key."""

_COLUMN_NAMES = pa.array([field.column or "" for field in fields.FIELDS], pa.string())


@dataclass(frozen=True)
class Samples:
    """Samples of one input, in its order; all arrays have the same length."""

    series: NDArray[np.int32]  # number of the series; negative if it is refused
    value: NDArray[np.float64]  # as sent, or in stored units
    time_us: NDArray[np.int64]  # microseconds since the epoch
    line: NDArray[np.int64]  # line of the input, from 1

    def where(self, kept: NDArray[np.bool_]) -> Samples:
        """The samples for which `kept` is true."""
        return Samples(self.series[kept], self.value[kept], self.time_us[kept], self.line[kept])


class SeriesNumbers:
    """Series of one cluster by number, from 0. A refused series has a negative number: see `refusals`."""

    def __init__(self, cluster: str) -> None:
        self.refusals: list[str] = []
        """A series with number -1-k is refused for refusals[k]."""
        self.new_contexts: list[dict[str, object]] = []
        """Rows of model.CONTEXT that take_contexts has not returned yet."""
        self._cluster = cluster
        self.forget()

    def forget(self) -> None:
        """Drops all numbers once their points were handed over. Contexts not taken yet remain."""
        self._device, self._context = array("q"), array("q")
        self._code, self._mig = array("h"), array("b")
        self._seen: set[int] = set()
        self._recent: dict[tuple[tuple[str, str], ...], tuple[int, int, bool] | str] = {}
        self._tables: dict[bytes, pa.Table] = {}

    def __len__(self) -> int:
        return len(self._device)

    def number_of(self, name: str, labels: dict[str, str]) -> int:
        """Assigns a number to a new series, and records its context if that is new."""
        field = field_of(name)
        if isinstance(field, str):
            return self.refuse(field)
        found = self._find_context(labels)
        if isinstance(found, str):
            return self.refuse(found)
        device_id, context_id, on_mig = found
        self._device.append(device_id)
        self._context.append(context_id)
        self._code.append(fields.code_of(field))
        self._mig.append(on_mig)
        return len(self._device) - 1

    def _find_context(self, labels: dict[str, str]) -> tuple[int, int, bool] | str:
        """(device_id, context_id, whether it is a MIG instance) of labels, or the reason why they name no device."""
        key = tuple(labels.items())
        if (found := self._recent.get(key)) is not None:
            return found
        row = context_row(labels, self._cluster)
        if isinstance(row, str):
            found = row
        else:
            found = (cast(int, row["device_id"]), cast(int, row["context_id"]), row["gi"] != WHOLE_GPU)
            if found[1] not in self._seen:
                self._seen.add(found[1])
                self.new_contexts.append(row)
        if len(self._recent) >= MAX_RECENT:
            self._recent.clear()
        self._recent[key] = found
        return found

    def refuse(self, reason: str) -> int:
        """The number for series that are refused for `reason`."""
        if reason not in self.refusals:
            self.refusals.append(reason)
        return -1 - self.refusals.index(reason)

    def codes(self, numbers: NDArray[np.int32]) -> NDArray[np.int16]:
        """Field codes (see fields.code_of) of numbers from 0."""
        return np.frombuffer(self._code, np.int16)[numbers] if len(self) else np.empty(0, np.int16)

    def on_mig(self, numbers: NDArray[np.int32]) -> NDArray[np.bool_]:
        """Whether the series are of MIG instances."""
        return np.frombuffer(self._mig, np.bool_)[numbers] if len(self) else np.empty(0, np.bool_)

    def context_ids(self, numbers: NDArray[np.int32]) -> NDArray[np.int64]:
        """`context_id` of numbers from 0."""
        return np.frombuffer(self._context, np.int64)[numbers] if len(self) else np.empty(0, np.int64)

    def take_contexts(self) -> Iterator[Records]:
        """The contexts that were not returned yet, if any."""
        if self.new_contexts:
            rows, self.new_contexts = self.new_contexts, []
            yield context_records(rows)

    def table(self, numbers: NDArray[np.int32]) -> pa.Table:
        """Rows of model.SERIES, numbered from 0 in the order of `numbers`. Cached, since a sender repeats the same ones."""
        key = numbers.tobytes()
        if (found := self._tables.get(key)) is None:
            found = self._table(numbers)
            if len(key) <= MAX_TABLE_BYTES:
                if len(self._tables) >= MAX_TABLES:
                    self._tables.clear()
                self._tables[key] = found
        return found

    def _table(self, numbers: NDArray[np.int32]) -> pa.Table:
        return pa.table(
            [
                pa.array(np.arange(len(numbers), dtype=np.int32)),
                pa.array(np.frombuffer(self._device, np.int64)[numbers]),
                pa.array(self.context_ids(numbers)),
                _COLUMN_NAMES.take(pa.array(self.codes(numbers))),
            ],
            schema=SERIES,
        )


class Contexts:
    """The contexts of one cluster, returned with every request that uses them, since an earlier request may be lost."""

    def __init__(self, numbers: SeriesNumbers) -> None:
        self._numbers = numbers
        self._table = context_records([]).rows
        self._places: dict[int, int] = {}  # row of each context in the table
        self._cuts: dict[bytes, Records] = {}  # cached results, by their contexts

    def __len__(self) -> int:
        return len(self._places)

    def of(self, numbers: NDArray[np.int32]) -> Records:
        """The contexts of series numbers, whether returned before or not."""
        for fresh in self._numbers.take_contexts():
            ids = fresh.rows["context_id"].to_pylist()
            self._places |= {context_id: len(self._places) + place for place, context_id in enumerate(ids)}
            self._table = pa.concat_tables([self._table, fresh.rows]).combine_chunks()
        used = _distinct(self._numbers.context_ids(numbers))
        key = used.tobytes()
        if (found := self._cuts.get(key)) is None:
            found = Records("context", self._table.take([self._places[context_id] for context_id in used.tolist()]))
            if len(key) <= MAX_TABLE_BYTES:
                if len(self._cuts) >= MAX_TABLES:
                    self._cuts.clear()
                self._cuts[key] = found
        return found


def context_records(rows: Sequence[dict[str, object]]) -> Records:
    """Context rows as a batch."""
    return Records("context", pa.Table.from_pylist(list(rows), schema=CONTEXT))


def of_devices(samples: Samples, known: SeriesNumbers, file: str, rejects: Rejects) -> Samples:
    """The samples of stored fields and known devices; the others are counted by reason."""
    refused = samples.series < 0
    if not refused.any():
        return samples
    for k, reason in enumerate(known.refusals):
        of_reason = np.flatnonzero(samples.series == -1 - k)
        if len(of_reason):
            rejects.add(reason, file, int(samples.line[of_reason[0]]), count=len(of_reason))
    return samples.where(~refused)


def in_units(samples: Samples, known: SeriesNumbers, file: str, rejects: Rejects) -> Samples:
    """The samples with valid values, in stored units; the others are counted with the first raw value."""
    codes = known.codes(samples.series)
    values, reasons = fields.normalise_codes(codes, samples.value, known.on_mig(samples.series))
    stored = Samples(samples.series, values, samples.time_us, samples.line)
    if not reasons.any():
        return stored
    for reason in range(1, len(fields.REASONS)):
        at = np.flatnonzero(reasons == reason)
        if len(at):
            example = f"{fields.FIELDS[codes[at[0]]].name} {samples.value[at[0]]!s}"
            rejects.add(fields.REASONS[reason], file, int(samples.line[at[0]]), example, count=len(at))
    return stored.where(reasons == fields.OK)


def joined(parts: Sequence[Samples]) -> Samples:
    """The samples of all parts of one input."""
    if len(parts) == 1:
        return parts[0]
    none = Samples(np.empty(0, np.int32), np.empty(0), np.empty(0, np.int64), np.empty(0, np.int64))
    every = [none, *parts]
    return Samples(
        np.concatenate([part.series for part in every]),
        np.concatenate([part.value for part in every]),
        np.concatenate([part.time_us for part in every]),
        np.concatenate([part.line for part in every]),
    )


def points(parts: Sequence[Samples], known: SeriesNumbers) -> Iterator[Points]:
    """One batch of samples in stored units with the series they use, renumbered from 0; nothing without samples."""
    if not any(len(part.series) for part in parts):
        return
    series, values, times = (
        arrays[0] if len(arrays) == 1 else np.concatenate(arrays)
        for arrays in zip(*((part.series, part.value, part.time_us) for part in parts), strict=True)
    )
    used, own = _numbered(series, len(known))
    yield Points(known.table(used), pa.table([pa.array(own), pa.array(times), pa.array(values)], schema=POINT))


def _distinct(ids: NDArray[np.int64]) -> NDArray[np.int64]:
    """The different ids in ascending order. For a request's few thousand it is faster than np.unique, which hashes them."""
    ids = np.sort(ids)
    return ids[np.concatenate(([True], ids[1:] != ids[:-1]))] if len(ids) else ids


def _numbered(series: NDArray[np.int32], count: int) -> tuple[NDArray[np.int32], NDArray[np.int32]]:
    """The used numbers in ascending order, and the index into them for each sample."""
    if len(series) * FEW < count:
        used, own = np.unique(series, return_inverse=True)
        return used, own.astype(np.int32)
    used = np.flatnonzero(np.bincount(series)).astype(np.int32)
    places = np.empty(int(used[-1]) + 1, np.int32)
    places[used] = np.arange(len(used), dtype=np.int32)
    return used, places[series]
